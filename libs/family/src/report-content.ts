import type { SRef, TerminalState } from '#protocol';
import { cutBefore, wellFormed } from '#platform';

/** How a child came out. `text`: its last words, where it had any. */
export interface ChildEnd {
  state: TerminalState;
  text: string;
}

/** The longest text of a child that its report repeats, in UTF-16 units; the whole stands in the child's session. */
const REPORT_TEXT_MAX = 32_768;

/** What the parent's model reads, and the child's words in it. */
export function reportContent(
  { sessionId, turnId }: SRef,
  { state, text }: ChildEnd,
): { content: string; text: string } {
  const words = wellFormed(text.slice(0, cutBefore(text, REPORT_TEXT_MAX)));
  const cut = words.length < text.length ? '\n(cut: the rest stands in its session)' : '';
  return { content: `Sub-agent ${sessionId}/${turnId} ${state}.${words && `\n${words}`}${cut}`, text: words };
}
