import type { Id } from '#protocol';

export type Language = 'en' | 'zh';
/** `watch`: worth a second look. `alarm`: somebody should act. */
export type Level = 'ok' | 'watch' | 'alarm';

/** What the figures of one topic mean. */
export interface Finding {
  level: Level;
  /** The figures, and what follows from them. */
  says: string;
  /** What to look at next, as the end of "next I would …"; null when nothing calls for it. */
  next: string | null;
}

/** One thing that can be asked about: how it is recognised, measured and judged. */
export interface Topic<Figures> {
  /** The name of its tool, too. */
  readonly name: string;
  /** What it is called in a reply. */
  readonly label: Record<Language, string>;
  /** Recognises a question, in either language. */
  readonly words: RegExp;
  /** Measures. The result is recorded, so it is plain JSON. */
  measure(account: Id): Promise<Figures>;
  judge(figures: Figures, language: Language): Finding;
}

export function percent(part: number, whole: number): number {
  return whole > 0 ? Math.round((part / whole) * 100) : 0;
}

/** Bytes for people: `3.4 GiB`, `512 MiB`. */
export function size(bytes: number): string {
  const gib = bytes / 2 ** 30;
  return gib >= 1 ? `${gib.toFixed(1)} GiB` : `${Math.round(bytes / 2 ** 20)} MiB`;
}
