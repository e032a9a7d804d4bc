import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { settingsPage } from './settings-page.js';

const page = join(import.meta.dirname, '../../../../docs/settings.md');

it('docs/settings.md says what the settings class declares', () => {
  if (process.env['UPDATE_DOCS']) {
    mkdirSync(join(page, '..'), { recursive: true });
    writeFileSync(page, settingsPage());
  }
  expect(existsSync(page) ? readFileSync(page, 'utf8') : '').toBe(settingsPage());
});
