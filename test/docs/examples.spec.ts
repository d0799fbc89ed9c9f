import { readdirSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import ts from 'typescript';

const ROOT = new URL('../../', import.meta.url);
const read = (path: string) => readFileSync(new URL(path, ROOT), 'utf8');

const PAGES = ['README.md', ...readdirSync(new URL('docs/', ROOT)).map((name) => `docs/${name}`)].filter((name) =>
  name.endsWith('.md'),
);

/** What a page may use without saying where it comes from. */
const HOST = `
declare const scheduler: SchedulerService;
declare const receipts: ReceiptService;
declare const fanOut: FanOutService;
declare const run: CronRun;
declare const by: Operator;
declare const dataSource: DataSource;
declare const ids: string[];
declare const customers: Customer[];
declare const customer: Customer;
declare function invoiceFor(customer: unknown, fireTime?: Date): Invoice;
declare class Customer {
  id: number;
  [name: string]: any;
}
declare class Invoice {
  id: number;
}
declare const [fireTime, monday, friday, tomorrow, from, to, before]: Date[];
declare class Host {
  receipts: ReceiptService;
  fanOut: FanOutService;
  jobs: JobRegistry;
  [name: string]: any;
}
`;

const IMPORTS: Readonly<Record<string, readonly string[]>> = {
  '@jest/globals': ['expect', 'it'],
  '@nestjs/common': ['CallHandler', 'ExecutionContext', 'Injectable', 'Module', 'NestInterceptor'],
  '@nestjs/core': ['NestFactory'],
  '@nestjs/testing': ['Test'],
  rxjs: ['catchError'],
  typeorm: ['DataSource'],
  'nestjs-distributed-cron': exported('lib/index.ts'),
  'nestjs-distributed-cron/bullmq': exported('lib/bullmq/index.ts'),
  'nestjs-distributed-cron/testing': exported('lib/testing/index.ts'),
  'nestjs-distributed-cron/trigger': exported('lib/trigger/index.ts'),
};

/** A page shows statements, members of a class, or members of an object. */
const SHAPES: readonly ((text: string) => string)[] = [
  (text) => `async function example(this: Host) {\n${text}\n}`,
  (text) => text,
  (text) => `class Example extends Host {\n${text}\n}`,
  (text) => `class Example extends Host {\n${text}\nexample() {}\n}`,
  (text) => `const example = {\n${text}\n};`,
];

const OPTIONS: ts.CompilerOptions = {
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  strict: true,
  noImplicitAny: false,
  strictPropertyInitialization: false,
  experimentalDecorators: true,
  emitDecoratorMetadata: true,
  allowUnusedLabels: true,
  skipLibCheck: true,
  noEmit: true,
  types: ['node'],
};

const examples = new Map(
  PAGES.flatMap((page) =>
    [...read(page).matchAll(/^```ts\n([^]*?)^```/gm)].map(([, text], index): [string, string] => [
      `${page} ${index + 1}`,
      text!,
    ]),
  ),
);

describe('examples of the pages', () => {
  const shaped = new Map([...examples].map(([place, text]) => [place, shapedAs(text)]));
  const unknown = new Map([...checked(shaped)].map(([place, found]) => [place, namesIn(found)]));
  const complete = new Map(
    [...shaped].map(([place, text]) => [place, `${imports(text, unknown.get(place)!)}\n${text}`]),
  );
  const problems = checked(complete);

  it.each([...examples.keys()])('%s compiles', (place) => {
    expect(problems.get(place)!.map(({ text }) => text)).toEqual([]);
  });
});

interface Problem {
  readonly code: number;
  readonly text: string;
}

function shapedAs(text: string): string {
  const heads = [...text.matchAll(/^import .*$/gm)].map(([line]) => line).filter((line) => !line.includes("'./"));
  const rest = text.replace(/^import .*$/gm, '');
  const shapes = /^export /m.test(rest) ? SHAPES.slice(1) : SHAPES;
  const shape = shapes.find((one) => syntaxOf(one(rest)).length === 0) ?? shapes[0]!;
  return `${heads.join('\n')}\n${shape(rest)}\nexport {};`;
}

function syntaxOf(text: string): readonly ts.Diagnostic[] {
  return ts.transpileModule(text, { reportDiagnostics: true, compilerOptions: OPTIONS }).diagnostics!;
}

/** What the compiler says about each. */
function checked(texts: ReadonlyMap<string, string>): Map<string, Problem[]> {
  const folder = fileURLToPath(new URL('test/docs/', ROOT));
  const files = new Map([...texts].map(([place, text], index) => [`${folder}example-${index}.ts`, { place, text }]));
  const host = ts.createCompilerHost(OPTIONS);
  const usual = { fileExists: host.fileExists, readFile: host.readFile, getSourceFile: host.getSourceFile };
  host.fileExists = (name) => files.has(name) || usual.fileExists(name);
  host.readFile = (name) => files.get(name)?.text ?? usual.readFile(name);
  host.getSourceFile = (name, target, ...others) => {
    const file = files.get(name);
    return file ? ts.createSourceFile(name, file.text, target) : usual.getSourceFile(name, target, ...others);
  };
  host.getCurrentDirectory = () => dirname(folder);
  const program = ts.createProgram([...files.keys()], OPTIONS, host);
  return new Map(
    [...files].map(([name, { place }]) => {
      const source = program.getSourceFile(name)!;
      const found = [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)];
      return [
        place,
        found.map(({ code, messageText }) => ({ code, text: ts.flattenDiagnosticMessageText(messageText, '\n') })),
      ];
    }),
  );
}

/** The names that are not there: "Cannot find name". */
function namesIn(problems: readonly Problem[]): Set<string> {
  return new Set(
    problems.flatMap(({ text }) => /(?:find name|in scope for the shorthand property) '(\w+)'/.exec(text)?.[1] ?? []),
  );
}

/** Those that libraries have are imported, those of the reader's application are anything. */
function imports(text: string, names: ReadonlySet<string>): string {
  const there = new Set([...text.matchAll(/^import (?:type )?\{([^}]*)\}/gm)].flatMap(([, all]) => namesOf(all!)));
  const wanted = new Set([...names, 'Host', ...HOST.match(/\b[A-Z]\w+/g)!].filter((name) => !there.has(name)));
  const lines = Object.entries(IMPORTS).flatMap(([from, all]) => {
    const some = all.filter((name) => wanted.delete(name));
    return some.length > 0 ? [`import { ${some.join(', ')} } from '${from}';`] : [];
  });
  const own = [...wanted].filter(
    (name) => !new RegExp(`\\b(class|const|function) \\[?([\\w, ]*, )?${name}\\b`).test(HOST),
  );
  const known = [...own].filter((name) => name !== 'Date');
  return [...lines, HOST, ...known.map((name) => `declare const ${name}: any; type ${name} = any;`)].join('\n');
}

function namesOf(list: string): string[] {
  return list.split(',').map((name) => name.replace(/^\s*type /, '').trim());
}

function exported(path: string): string[] {
  return [...read(path).matchAll(/export (?:type )?\{([^}]*)\}/g)].flatMap(([, names]) => namesOf(names!));
}
