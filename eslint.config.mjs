import tseslint from 'typescript-eslint';

// The whole runtime runs under a simulated clock in tests: one stray global and a simulation is no longer repeatable.
const use = (what) => `Take ${what} from #platform, so that it can be simulated.`;
const time = use('time');
const ids = use('ids and randomness');

export default tseslint.config(
  { ignores: ['dist', 'coverage', '.butler'] },
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  {
    files: ['*.mjs', 'tools/**/*.mjs'],
    rules: { eqeqeq: 'error', 'no-var': 'error', 'prefer-const': 'error', 'no-unused-vars': 'error' },
  },
  {
    files: ['apps/**/*.ts', 'libs/**/*.ts', 'test/**/*.ts'],
    plugins: { '@typescript-eslint': tseslint.plugin },
    languageOptions: {
      parser: tseslint.parser,
      parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname },
    },
    rules: {
      eqeqeq: 'error',
      'no-console': 'error',
      'no-var': 'error',
      'prefer-const': 'error',
      'no-unsafe-finally': 'error',
      'no-async-promise-executor': 'error',
      '@typescript-eslint/no-explicit-any': 'error',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': 'error',
      '@typescript-eslint/await-thenable': 'error',
      '@typescript-eslint/return-await': ['error', 'error-handling-correctness-only'],
      '@typescript-eslint/only-throw-error': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
    },
  },
  {
    files: ['apps/**/*.ts', 'libs/**/*.ts'],
    // The client runs without #platform; what it takes from the globals can be given instead.
    ignores: ['libs/platform/src/**', 'libs/test-kit/**', 'libs/client/src/surroundings.ts'],
    rules: {
      'no-restricted-globals': [
        'error',
        ...['setTimeout', 'setInterval', 'setImmediate', 'performance'].map((name) => ({ name, message: time })),
        { name: 'crypto', message: ids },
      ],
      'no-restricted-properties': [
        'error',
        { object: 'Date', property: 'now', message: time },
        { object: 'process', property: 'hrtime', message: time },
        { object: 'AbortSignal', property: 'timeout', message: time },
        { object: 'Math', property: 'random', message: ids },
        ...['randomUUID', 'randomBytes', 'randomInt', 'getRandomValues'].map((property) => ({
          property,
          message: ids,
        })),
        ...['setTimeout', 'setInterval', 'performance'].map((property) => ({
          object: 'globalThis',
          property,
          message: time,
        })),
      ],
      'no-restricted-syntax': [
        'error',
        { selector: 'NewExpression[callee.name="Date"][arguments.length=0]', message: time },
        { selector: 'CallExpression[callee.name="Date"]', message: time },
      ],
      'no-restricted-imports': [
        'error',
        {
          paths: [
            ...[
              'node:timers',
              'timers',
              'node:timers/promises',
              'timers/promises',
              'node:perf_hooks',
              'perf_hooks',
            ].map((name) => ({ name, message: time })),
            ...['node:crypto', 'crypto'].map((name) => ({
              name,
              importNames: ['randomUUID', 'randomBytes', 'randomInt', 'randomFillSync', 'webcrypto'],
              message: ids,
            })),
          ],
        },
      ],
    },
  },
);
