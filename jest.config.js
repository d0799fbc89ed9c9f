/** The tests run what is shipped: `npm test` builds first, and imports of lib/ and migrations/ are taken from dist/. */
export default {
  rootDir: '.',
  roots: ['<rootDir>/test'],
  testMatch: ['**/*.spec.ts'],
  // An application of its own, whose specs its own Jest runs.
  testPathIgnorePatterns: ['/node_modules/', '/test/compat/stock-nest11/'],
  modulePathIgnorePatterns: ['/test/compat/stock-nest11/'],
  testEnvironment: 'node',
  extensionsToTreatAsEsm: ['.ts'],
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      {
        jsc: {
          target: 'es2022',
          parser: { syntax: 'typescript', decorators: true },
          transform: { legacyDecorator: true, decoratorMetadata: true },
        },
        module: { type: 'es6' },
      },
    ],
  },
  moduleNameMapper: {
    '^(?:\\.\\./){2,}(lib|migrations)/(.*)\\.js$': '<rootDir>/dist/$1/$2.js',
    '^(\\.{1,2}/.*)\\.js$': ['$1.ts', '$1.js'],
  },
  globalSetup: '<rootDir>/test/support/global-setup.mjs',
  globalTeardown: '<rootDir>/test/support/global-teardown.mjs',
  // Most of the time tests wait for what other processes do.
  maxWorkers: 4,
  testTimeout: 120_000,
};
