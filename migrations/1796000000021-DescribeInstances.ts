import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Lets an instance say of which application it is and which time-zone data it has, and bounds what a run keeps of its earlier
 * attempts. A release before goes on beside it: it writes the columns that it knows.
 */
export const describeInstances = (schema?: string) =>
  class DescribeInstances1796000000021 implements MigrationInterface {
    readonly name = 'DescribeInstances1796000000021';

    async up(queryRunner: QueryRunner): Promise<void> {
      const place = schemaOf(queryRunner, schema);
      await queryRunner.query(`
        alter table ${place}.job_instances
          add column if not exists application text,
          add column if not exists tz          text,
          add column if not exists icu         text,
          add column if not exists zones       jsonb`);
      // The first attempt and the last 20. On the first, leftOut says how many between them are not kept.
      await queryRunner.query(`
        create or replace function ${place}.earlier_attempts_with_1(list jsonb, attempt jsonb) returns jsonb
        language sql immutable parallel safe as $$
          select case
            when jsonb_typeof(list) is distinct from 'array' then jsonb_build_array(attempt)
            when jsonb_array_length(list) <= 20 then list || jsonb_build_array(attempt)
            else jsonb_build_array((list -> 0) || jsonb_build_object(
                   'leftOut', coalesce((list -> 0 ->> 'leftOut')::integer, 0) + jsonb_array_length(list) - 20))
              || (select jsonb_agg(each.value order by each.position)
                  from   jsonb_array_elements(list) with ordinality as each (value, position)
                  where  each.position > jsonb_array_length(list) - 19)
              || jsonb_build_array(attempt)
          end
        $$`);
    }

    async down(queryRunner: QueryRunner): Promise<void> {
      const place = schemaOf(queryRunner, schema);
      await queryRunner.query(`drop function if exists ${place}.earlier_attempts_with_1(jsonb, jsonb)`);
      await queryRunner.query(`
        alter table if exists ${place}.job_instances
          drop column if exists application,
          drop column if exists tz,
          drop column if exists icu,
          drop column if exists zones`);
    }
  };

/** Quoted: the given one, or that of the data source that runs the migration. */
function schemaOf(queryRunner: QueryRunner, schema: string | undefined): string {
  const name = schema ?? (queryRunner.connection.options as { schema?: string }).schema ?? 'public';
  return `"${name.replaceAll('"', '""')}"`;
}
