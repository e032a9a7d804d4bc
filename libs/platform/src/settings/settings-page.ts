import { settingsOf } from './setting.decorators.js';
import { Settings } from './settings.js';

/** The page of the docs about settings, made from the class that declares them. */
export function settingsPage(): string {
  const rows = settingsOf(Settings).map(
    ({ variable, fallback, doc }) => `| \`${variable}\` | ${cell(fallback)} | ${cell(doc)} |`,
  );
  return `# Settings

Environment variables. They are checked at start: every unknown value and every impossible pair is told in one line, and
the process ends with exit code 1.

Made from \`libs/platform/src/settings/settings.ts\`: \`UPDATE_DOCS=1 npm run test:unit -- settings-page\` writes this page,
and the same spec fails when it is stale.

<!-- prettier-ignore-start -->

| variable | default | meaning |
| --- | --- | --- |
${rows.join('\n')}

<!-- prettier-ignore-end -->
`;
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|') || '—';
}
