import type { EventData, LiveDelta, Ref, TextPiece } from '#protocol';
import { type Clock, cutBefore, type Timer, wellFormed } from '#platform';
import { AgentError } from './agent.js';

/** A step's text is stored in at most one row in this time. */
export const TEXT_PIECE_MS = 250;
/** The longest stored piece, in UTF-16 units. What is longer goes on in the next one. */
const PIECE_MAX_UNITS = 65_536;
/** The longest text of a step, in UTF-16 units; a longer one would not fit into the event that records it. */
const STEP_MAX_UNITS = 4 * 1024 * 1024;
/** The longest live piece, in UTF-16 units. */
const DELTA_MAX_UNITS = 16_384;

export interface TextSinks {
  /** Tells the watchers. */
  delta(delta: LiveDelta): void;
  /** Stores a piece. Rejects when the attempt is over; the step learns that by itself. */
  store(piece: EventData['model.text']): Promise<void>;
}

/**
 * The text of one model step on its way: told to watchers at once, stored in pieces while the step lasts, whole at its
 * end.
 *
 * Owns: the step's text and one timer. Pieces of either kind adjoin (`offset` counts UTF-16 units) and never split a
 * surrogate pair: a high half at the end waits for its other half. What is said in one go of the event loop leaves as
 * one delta. At most one piece is being stored, so memory is bounded by the text itself.
 */
export class TextStream {
  private readonly whole: string[] = [];
  private held = '';
  private units = 0;
  private untold = '';
  private toldUnits = 0;
  private unstored = '';
  private storedUnits = 0;
  private ended = false;
  private timer: Timer | null = null;
  private storing: Promise<void> | null = null;

  constructor(
    private readonly clock: Clock,
    private readonly sinks: TextSinks,
    private readonly step: { turn: Ref; step: string; attempt: number; try: number },
  ) {}

  /** @throws AgentError when the text becomes longer than a step's may be */
  say(text: string): void {
    if (this.ended) return;
    this.units += text.length;
    if (this.units > STEP_MAX_UNITS) throw new AgentError(`a reply is longer than ${STEP_MAX_UNITS} UTF-16 units`);
    const joined = this.held + text;
    const cut = cutBefore(joined, joined.length);
    this.held = joined.slice(cut);
    this.take(wellFormed(joined.slice(0, cut)));
  }

  /** The whole text. Nothing is said or stored afterwards; a piece that is being stored is waited for. */
  async end(): Promise<string> {
    if (!this.ended) {
      this.take(wellFormed(this.held));
      this.tell();
    }
    this.abandon();
    await this.storing;
    return this.whole.join('');
  }

  /** The text of a step that is broken off: a character of which only the first half was said is left out. */
  breakOff(): Promise<string> {
    this.held = '';
    return this.end();
  }

  /** The attempt is over. */
  abandon(): void {
    this.ended = true;
    this.timer?.cancel();
    this.timer = null;
  }

  private take(text: string): void {
    if (text === '') return;
    this.whole.push(text);
    this.unstored += text;
    if (this.untold === '') queueMicrotask(() => this.tell());
    this.untold += text;
    this.storeLater();
  }

  private tell(): void {
    if (this.ended) return;
    for (let from = 0; from < this.untold.length;) {
      const to = cutBefore(this.untold, from + DELTA_MAX_UNITS);
      const data = this.piece(this.toldUnits + from, this.untold.slice(from, to));
      const at = new Date(this.clock.now()).toISOString();
      this.sinks.delta({ type: 'model.delta', ...this.step.turn, at, data });
      from = to;
    }
    this.toldUnits += this.untold.length;
    this.untold = '';
  }

  private storeLater(): void {
    if (this.timer || this.storing || this.ended || this.unstored === '') return;
    this.timer = this.clock.after(TEXT_PIECE_MS, () => {
      this.timer = null;
      this.storing = this.storePiece().finally(() => {
        this.storing = null;
        this.storeLater();
      });
    });
  }

  private async storePiece(): Promise<void> {
    const text = this.unstored.slice(0, cutBefore(this.unstored, PIECE_MAX_UNITS));
    try {
      await this.sinks.store(this.piece(this.storedUnits, text));
      this.storedUnits += text.length;
      this.unstored = this.unstored.slice(text.length);
    } catch {
      this.abandon();
    }
  }

  private piece(offset: number, text: string): TextPiece {
    const { step, attempt, try: nth } = this.step;
    return { step, attempt, ...(nth > 1 && { try: nth }), offset, text };
  }
}
