import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { LiveDelta, TextPiece } from '#protocol';
import { ManualClock } from '#test-kit';
import { TEXT_PIECE_MS, TextStream } from './text-stream.js';

class Sinks {
  readonly deltas: LiveDelta[] = [];
  readonly stored: (TextPiece & { atMs: number })[] = [];
  /** How long storing takes. */
  delayMs = 0;

  constructor(private readonly clock: ManualClock) {}

  delta(delta: LiveDelta): void {
    this.deltas.push(delta);
  }

  async store(piece: TextPiece): Promise<void> {
    this.stored.push({ ...piece, atMs: this.clock.monotonicMs() });
    if (this.delayMs > 0) await this.clock.sleep(this.delayMs);
  }
}

function open(): { clock: ManualClock; sinks: Sinks; stream: TextStream } {
  const clock = new ManualClock();
  const sinks = new Sinks(clock);
  const turn = { turnId: 't', generation: 1 };
  return { clock, sinks, stream: new TextStream(clock, sinks, { turn, step: 'model:1', attempt: 2, try: 1 }) };
}

/** The pieces as one text; fails where they do not adjoin. */
function joined(pieces: readonly TextPiece[]): string {
  let text = '';
  for (const piece of pieces) {
    expect(piece.offset).toBe(text.length);
    text += piece.text;
  }
  return text;
}

const LONE = /\p{Surrogate}/u;

describe('a step’s text', () => {
  it('leaves nothing in the ledger when the step is over within a piece’s time', async () => {
    const { clock, sinks, stream } = open();
    stream.say('short');
    await clock.advance(TEXT_PIECE_MS - 1);
    expect(await stream.end()).toBe('short');
    await clock.advance(1000);
    expect(sinks.stored).toEqual([]);
    expect(clock.pending).toBe(0);
  });

  it('tells what is said in one go as one delta, at once', async () => {
    const { sinks, stream } = open();
    for (const word of ['a ', 'b ', 'c']) stream.say(word);
    await Promise.resolve();
    expect(sinks.deltas).toMatchObject([
      {
        type: 'model.delta',
        turnId: 't',
        generation: 1,
        data: { step: 'model:1', attempt: 2, offset: 0, text: 'a b c' },
      },
    ]);
  });

  it('holds half a character back until the other half has come', async () => {
    const { sinks, stream } = open();
    stream.say('a\ud83d');
    await Promise.resolve();
    stream.say('\ude00b');
    expect(await stream.end()).toBe('a😀b');
    expect(sinks.deltas.map(({ data }) => data.text)).toEqual(['a', '😀b']);
  });

  it('refuses a text that no event could hold', () => {
    const { stream } = open();
    const mib = 'x'.repeat(1024 * 1024);
    expect(() => {
      for (let said = 0; said < 5; said++) stream.say(mib);
    }).toThrow('longer');
  });

  it('is not whole before the piece that is being stored is', async () => {
    const { clock, sinks, stream } = open();
    sinks.delayMs = 400;
    stream.say('slow');
    await clock.advance(TEXT_PIECE_MS);
    let ended = false;
    const end = stream.end().then(() => (ended = true));
    await clock.advance(399);
    expect(ended).toBe(false);
    await clock.advance(1);
    expect(await end).toBe(true);
  });

  it('says nothing after its end', async () => {
    const { clock, sinks, stream } = open();
    await stream.end();
    stream.say('late');
    await clock.advance(1000);
    expect(sinks.deltas).toEqual([]);
  });

  const units = fc.constantFrom('a', 'é', '中', '\ud83d', '\ude00', '😀', '\n', '"', '');
  const piece = fc.array(units, { maxLength: 8 }).map((parts) => parts.join(''));
  const course = fc.array(fc.record({ text: piece, thenMs: fc.constantFrom(0, 0, 10, 100, 249, 250, 600) }), {
    maxLength: 40,
  });

  it('adjoins, is well-formed, and takes at most one row per 250 ms, whatever is said and however slow the ledger is', async () => {
    await fc.assert(
      fc.asyncProperty(course, fc.constantFrom(0, 5, 400), async (acts, delayMs) => {
        const { clock, sinks, stream } = open();
        sinks.delayMs = delayMs;
        for (const { text, thenMs } of acts) {
          stream.say(text);
          if (thenMs > 0) await clock.advance(thenMs);
        }
        const end = stream.end();
        await clock.advance(1000);
        const whole = await end;
        expect(whole.length).toBe(acts.reduce((sum, { text }) => sum + text.length, 0));
        expect(LONE.test(whole)).toBe(false);
        expect(joined(sinks.deltas.map(({ data }) => data))).toBe(whole);
        expect(whole.startsWith(joined(sinks.stored))).toBe(true);
        for (const { text } of [...sinks.stored, ...sinks.deltas.map(({ data }) => data)])
          expect(LONE.test(text)).toBe(false);
        sinks.stored.slice(1).forEach(({ atMs }, at) => {
          expect(atMs - sinks.stored[at]!.atMs).toBeGreaterThanOrEqual(TEXT_PIECE_MS);
        });
      }),
      { numRuns: 100 },
    );
  });

  it('stores a flood in bounded pieces, and parts no character where it cuts', async () => {
    const { clock, sinks, stream } = open();
    stream.say(`x${'😀'.repeat(100_000)}`);
    await clock.advance(TEXT_PIECE_MS * 3);
    expect(sinks.stored).toHaveLength(3);
    for (const { text } of sinks.stored) expect(text.length).toBeLessThanOrEqual(65_536);
    const whole = await stream.end();
    expect(whole.startsWith(joined(sinks.stored))).toBe(true);
    expect(joined(sinks.deltas.map(({ data }) => data))).toBe(whole);
    for (const { data } of sinks.deltas) expect(LONE.test(data.text)).toBe(false);
  });
});
