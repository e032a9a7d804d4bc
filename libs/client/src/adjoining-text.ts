import type { Event, LiveDelta, TextPiece } from '#protocol';

interface Spoken {
  turn: string;
  step: string;
  attempt: number;
  try: number;
  /** How far the step's text is known, in UTF-16 units; null: it is told as a whole, nothing follows. */
  end: number | null;
}

/**
 * Tells which live text adjoins what has been told before it. One step of one turn speaks at a time in a session, so
 * that is all there is to remember.
 */
export class AdjoiningText {
  private spoken: Spoken | null = null;

  /** An event is passed on: stored text moves the end, a whole reply ends its step, a failed try makes room for the next. */
  hear(event: Event): void {
    if (event.type === 'model.text') this.spoken = spokenBy(event, endOf(event.data));
    else if (event.type === 'model.message') this.spoken = spokenBy(event, null);
    else if (event.type === 'model.failed') this.spoken = { ...spokenBy(event, 0), try: event.data.try + 1 };
  }

  /** Whether this live text may be passed on. If not, what it said comes with the next `model.text` or `model.message`. */
  takes(delta: LiveDelta): boolean {
    const { offset } = delta.data;
    const next = spokenBy(delta, endOf(delta.data));
    const last = this.spoken;
    const isSameAttempt = last?.turn === next.turn && last.attempt === next.attempt;
    if (last?.turn === next.turn && next.attempt < last.attempt) return false;
    if (isSameAttempt && last.step === next.step && next.try < last.try) return false;
    const isSame = isSameAttempt && last.step === next.step && last.try === next.try;
    if (offset !== (isSame ? last.end : 0)) return false;
    this.spoken = next;
    return true;
  }
}

function spokenBy(of: Event | LiveDelta, end: number | null): Spoken {
  const { step, attempt, try: nth = 1 } = of.data as TextPiece;
  return { turn: `${of.turnId}/${of.generation}`, step, attempt, try: nth, end };
}

function endOf({ offset, text }: TextPiece): number {
  return offset + text.length;
}
