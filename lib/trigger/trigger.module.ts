import {
  applyDecorators,
  BadRequestException,
  Body,
  type CanActivate,
  ConflictException,
  Controller,
  type DynamicModule,
  type ExecutionContext,
  Headers,
  HttpException,
  Inject,
  Injectable,
  Module,
  NotFoundException,
  Param,
  Post,
  type Provider,
  Query,
  Res,
  ServiceUnavailableException,
  type Type,
  UnauthorizedException,
  UnprocessableEntityException,
  UseGuards,
  VERSION_NEUTRAL,
} from '@nestjs/common';
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { DeliveryRefusedError, InvalidOptionsError, NotFoundError } from '../errors/errors.js';
import { OwnLogger } from '../observe/own-logger.js';
import { type Delivered, hasEnded } from '../operations/delivery-rules.js';
import { Deliveries } from '../operations/deliveries.service.js';
import {
  readPath,
  readTokens,
  type TriggerAsyncOptions,
  type TriggerOptions,
  type TriggerRoutes,
  type TriggerSecrets,
} from './trigger-options.js';
import { readTriggerRequest, type TriggerHeaders } from './trigger-request.js';

/**
 * An endpoint through which a clock outside delivers occurrences: `POST /<path>/<job>`. Import it beside
 * `DistributedSchedulerModule`.
 */
@Module({})
export class DistributedCronTriggerModule {
  /** A token that is missing or too short fails the start. */
  static forRoot(options: TriggerOptions): DynamicModule {
    return assemble(options, {
      provide: TRIGGER_TOKENS,
      useFactory: () => readTokens(options, Boolean(options.guard)),
    });
  }

  /** Like `forRoot()`, with tokens that come from other providers. */
  static forRootAsync({ useFactory, inject = [], ...routes }: TriggerAsyncOptions): DynamicModule {
    const read = async (...args: unknown[]): Promise<readonly string[]> =>
      readTokens((await useFactory(...args)) as TriggerSecrets, Boolean(routes.guard));
    return assemble(routes, { provide: TRIGGER_TOKENS, inject, useFactory: read });
  }
}

function assemble({ path, guard, imports = [], decorators = [] }: TriggerRoutes, tokens: Provider): DynamicModule {
  return {
    module: DistributedCronTriggerModule,
    imports,
    providers: [tokens, TokenGuard],
    controllers: [triggerController(readPath(path), guard ? [TokenGuard, guard] : [TokenGuard], decorators)],
  };
}

/** The tokens that are good. */
export const TRIGGER_TOKENS = Symbol('TRIGGER_TOKENS');

/** Of what a request and a response have in Express and in Fastify alike. */
interface Request {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}
interface Response {
  header(name: string, value: string): unknown;
}

/** Lets in who brings a token. How long that takes says nothing about any of them. */
@Injectable()
export class TokenGuard implements CanActivate {
  private readonly key = randomBytes(32);
  private readonly digests: readonly Buffer[];

  constructor(@Inject(TRIGGER_TOKENS) tokens: readonly string[]) {
    this.digests = tokens.map((token) => this.digest(token));
  }

  canActivate(context: ExecutionContext): boolean {
    // None is asked for: a guard of the application's is.
    if (this.digests.length === 0) return true;
    const http = context.switchToHttp();
    const { authorization } = http.getRequest<Request>().headers;
    const [, token = ''] = typeof authorization === 'string' ? (/^Bearer +(\S+) *$/i.exec(authorization) ?? []) : [];
    if (this.isGood(token)) return true;
    http.getResponse<Response>().header('WWW-Authenticate', 'Bearer');
    throw new UnauthorizedException('A token is needed, as "Authorization: Bearer …".');
  }

  /** All are compared, also after one that fits; digests have one length, whatever was given. */
  private isGood(token: string): boolean {
    const given = this.digest(token);
    return this.digests.map((digest) => timingSafeEqual(digest, given)).includes(true);
  }

  private digest(token: string): Buffer {
    return createHmac('sha256', this.key).update(token).digest();
  }
}

/**
 * 202: it was taken in, or is not over yet for who waits. 200: there is nothing more to it. 424: it ended, and is not
 * done.
 */
export function statusOf(delivered: Delivered, waited: boolean): 200 | 202 | 424 {
  const { status, duplicate } = delivered;
  if (!waited) return duplicate || status === 'skipped' ? 200 : 202;
  if (!hasEnded(delivered)) return 202;
  return status === 'dead' || status === 'cancelled' ? 424 : 200;
}

/** What a caller is told: what he can mend in words, of everything else only that he may try again. */
export function refusalOf(error: unknown): HttpException {
  if (error instanceof InvalidOptionsError) return new BadRequestException([...error.problems]);
  if (error instanceof NotFoundError) return new NotFoundException(error.message);
  if (error instanceof DeliveryRefusedError) {
    return error.problem === 'too early'
      ? new ConflictException(error.message)
      : new UnprocessableEntityException(error.message);
  }
  new OwnLogger().error(`A delivery could not be taken in: ${error instanceof Error ? error.message : String(error)}`);
  return new ServiceUnavailableException(
    'The delivery could not be taken in; deliver it again: it has the same key, and runs once.',
  );
}

/** Of what a response has in Express and in Fastify alike. */
interface Response {
  status(code: number): unknown;
}

/** A controller class of its own: path and guards are a class's. */
export function triggerController(
  path: string,
  guards: readonly Type<CanActivate>[],
  decorators: readonly ClassDecorator[],
): Type {
  @Controller({ path, version: VERSION_NEUTRAL })
  @UseGuards(...guards)
  @applyDecorators(...decorators)
  class DistributedCronTriggerController {
    constructor(private readonly deliveries: Deliveries) {}

    @Post(':job')
    async trigger(
      @Param('job') job: string,
      @Body() body: unknown,
      @Headers() headers: TriggerHeaders,
      @Query() query: unknown,
      @Res({ passthrough: true }) response: Response,
    ): Promise<Delivered> {
      try {
        const { time, ...rest } = readTriggerRequest(body, headers, query);
        const delivered = await this.deliveries.take(job, time, rest);
        response.status(statusOf(delivered, rest.wait > 0));
        return delivered;
      } catch (error) {
        throw refusalOf(error);
      }
    }
  }
  return DistributedCronTriggerController;
}
