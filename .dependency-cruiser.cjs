// Imports go one way: apps → verbs → family → nouns → protocol, platform. Type imports count.
const nouns = 'session-lock|message-queue|turn-lifecycle|event-ledger';
const verbs = 'intake|actor|turn-runner|event-stream|recovery|agents';
const base = 'protocol|platform';
/** What verbs share that takes more than one noun. */
const shared = 'family';
const spec = '[.]spec[.]ts$';

/** The libs in `from` may import no other of our code than themselves and the libs in `to`; specs also the test kit. */
const mayImport = (name, from, to) => [
  {
    name,
    severity: 'error',
    from: { path: `^libs/(${from})/`, pathNot: spec },
    to: { path: '^(libs|apps|test|tools)/', pathNot: `^libs/($1|${to})/` },
  },
  {
    name: `${name}-in-specs`,
    severity: 'error',
    from: { path: `^libs/(${from})/.*${spec}` },
    to: { path: '^(libs|apps|test|tools)/', pathNot: `^(libs/($1|${to}|test-kit)|tools)/` },
  },
];

module.exports = {
  forbidden: [
    ...mayImport('verbs-import-nouns', verbs.replace('|agents', ''), `${shared}|${nouns}|${base}`),
    ...mayImport('family-imports-nouns', shared, `${nouns}|${base}`),
    ...mayImport('agents-import-the-runner', 'agents', `turn-runner|${base}`),
    ...mayImport('nouns-import-the-base', nouns, base),
    ...mayImport('platform-imports-no-lib', 'platform', 'platform'),
    ...mayImport('client-imports-the-protocol', 'client', 'protocol'),
    {
      name: 'client-runs-in-browsers',
      comment: 'What Node brings along is not there. The protocol imports nothing at all.',
      severity: 'error',
      from: { path: '^libs/client/', pathNot: spec },
      to: { dependencyTypes: ['core'] },
    },
    {
      name: 'protocol-imports-nothing',
      severity: 'error',
      from: { path: '^libs/protocol/', pathNot: spec },
      to: { pathNot: '^libs/protocol/' },
    },
    {
      name: 'libs-do-not-import-apps',
      severity: 'error',
      from: { path: '^libs/' },
      to: { path: '^apps/' },
    },
    {
      name: 'only-tests-import-tests',
      comment: 'The test kit, specs, test/ and the tools are not part of the product.',
      severity: 'error',
      from: { path: '^(apps|libs)/', pathNot: `^libs/test-kit/|${spec}` },
      to: { path: `^(libs/test-kit|test|tools)/|${spec}` },
    },
    {
      name: 'libs-by-their-alias',
      comment: 'From outside, a lib is its src/index.ts, imported as #<lib>.',
      severity: 'error',
      from: { path: '^(?:libs/([^/]+)/|apps/|test/)' },
      to: { path: '^libs/', pathNot: '^libs/$1/', dependencyTypesNot: ['aliased'] },
    },
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    { name: 'resolvable', severity: 'error', from: {}, to: { couldNotResolve: true } },
    {
      name: 'declared-packages',
      severity: 'error',
      from: { path: '^(apps|libs)/', pathNot: `^libs/test-kit/|${spec}` },
      to: { dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown'], dependencyTypesNot: ['type-only'] },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '^(dist|coverage)/' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['types', 'import', 'default'] },
  },
};
