import { until } from '../../e2e/harness/until.js';
import type { Drill } from './drill.js';
import { Field, type Say } from './field.js';
import type { Form } from './form.js';
import { liveTurns, readAll } from './reading.js';
import { type Row, within } from './row.js';
import { judge, longestSilenceMs } from './verdict.js';

/** How long work may go on when nobody says anything any more: more than a default lease and a sweep. */
const SETTLE_LIMIT_MS = 60_000;
const CATCH_UP_LIMIT_MS = 60_000;
const BEFORE_MS = 1_000;

/** Plays a drill in one of its forms, and judges it when everything has come to rest. */
export async function runDrill(drill: Drill, form: Form, say: Say): Promise<Row[]> {
  return Field.with(drill, form, say, async (field) => {
    const { load, watchers, stage } = field;
    load.start();
    await field.rest(BEFORE_MS);
    const judgeOwn = await drill.play(field, form);
    await load.end();
    watchers.rest();
    field.say('waiting for the last turns');
    const settled = async (): Promise<boolean> => (await liveTurns(stage.place)) === 0;
    // Those that do not end are found by the verdict, one by one.
    await until('every turn has ended', settled, SETTLE_LIMIT_MS).catch((error: unknown) => field.say(String(error)));
    const reading = await readAll(stage.place, stage.calls());
    const lastSeqs = new Map([...reading.sessions].map(([session, events]) => [session, events.length]));
    const missed = await watchers.leave(lastSeqs, CATCH_UP_LIMIT_MS);
    const errors = stage.pods.flatMap(({ name, errors }) => errors.map((line) => `${name}: ${line}`));
    const logged: Row = { what: 'errors logged by pods', value: errors.length, cases: errors.slice(0, 5) };
    const silence = within('longest silence of a session with work', longestSilenceMs(reading), {
      limitMs: form.silenceLimitMs,
    });
    return [...judge(load, watchers, missed, reading), silence, ...judgeOwn(reading), logged];
  });
}
