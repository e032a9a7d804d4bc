import type { Content, Event, EventData, Id, Kind, ModelMessage, Ref } from '#protocol';
import { sameRef } from '#protocol';

type Message = EventData['model.message'];
type Result = EventData['tool.result'];

interface Said {
  content: Content;
  kind: Kind;
}

/** A message that the turn took in, as it was then. */
interface Absorbed {
  absorbed: Said;
}

/** What one generation of a turn has added to the conversation. */
interface Chapter {
  turnId: Id;
  generation: number;
  /** Its own message, as it was at the start. */
  asked: Said | undefined;
  /** What was said to it and by it since, in order. */
  entries: (Absorbed | Message)[];
  /** Steps seen, so that none counts twice. */
  steps: Set<string>;
  results: Map<Id, Result>;
}

const NO_RESULT = 'interrupted: this call was ended before it had a result';

/**
 * The model input, folded from a session's events in order. Pure: the same events give the same messages.
 *
 * - Turns stand in the order of their starts, the given one last; queued ones do not appear.
 * - Content is as accepted, or as last edited before the turn started or was absorbed; an edit for a later generation
 *   changes nothing in what an earlier one has been told.
 * - A later generation's start discards what earlier ones of that turn have said; messages that they absorbed stay, but
 *   reports do not.
 * - Only settled replies count, never streamed text. An empty reply without calls is left out.
 * - Every tool call has exactly one result, right after its reply and in the order of the calls.
 */
export class History {
  private readonly said = new Map<Id, Said>();
  private chapters: Chapter[] = [];

  constructor(private readonly turn: Ref) {}

  add(event: Event): void {
    const ref = event.turnId === null ? null : { turnId: event.turnId, generation: event.generation ?? 0 };
    if (!ref) return;
    switch (event.type) {
      case 'message.accepted':
        this.said.set(ref.turnId, { content: event.data.content, kind: event.data.kind });
        return;
      case 'message.edited': {
        const said = this.said.get(ref.turnId);
        if (said) this.said.set(ref.turnId, { ...said, content: event.data.content });
        return;
      }
      case 'turn.started':
        return this.begin(ref);
      case 'turn.absorbed': {
        const absorbed = this.said.get(ref.turnId);
        if (absorbed) this.chapter(event.data.absorbedBy)?.entries.push({ absorbed });
        return;
      }
      case 'model.message':
        return this.reply(ref, event.data);
      case 'tool.result':
        this.chapter(ref)?.results.set(event.data.callId, event.data);
        return;
      default:
        return;
    }
  }

  messages(): ModelMessage[] {
    const last = this.chapters.findIndex((chapter) => sameRef(chapter, this.turn));
    const upTo = last < 0 ? this.chapters : this.chapters.slice(0, last + 1);
    return upTo.flatMap((chapter) => this.tell(chapter));
  }

  private begin({ turnId, generation }: Ref): void {
    const earlier = this.chapters.find((chapter) => chapter.turnId === turnId);
    if (earlier && earlier.generation >= generation) return;
    const entries = (earlier?.entries ?? []).filter((entry) => 'absorbed' in entry && entry.absorbed.kind !== 'report');
    const asked = this.said.get(turnId);
    this.chapters = this.chapters.filter((chapter) => chapter !== earlier);
    this.chapters.push({ turnId, generation, asked, entries, steps: new Set(), results: new Map() });
  }

  private reply(ref: Ref, message: Message): void {
    const chapter = this.chapter(ref);
    if (!chapter || chapter.steps.has(message.step)) return;
    chapter.steps.add(message.step);
    chapter.entries.push(message);
  }

  private chapter(ref: Ref): Chapter | undefined {
    return this.chapters.findLast((chapter) => sameRef(chapter, ref));
  }

  private tell({ asked, entries, results }: Chapter): ModelMessage[] {
    const rest = entries.map((entry) => ('absorbed' in entry ? [asUser(entry.absorbed)] : asAssistant(entry, results)));
    return [...(asked ? [asUser(asked)] : []), ...rest.flat()];
  }
}

/** The whole model input of a turn at once. */
export function historyOf(events: Iterable<Event>, turn: Ref): ModelMessage[] {
  const history = new History(turn);
  for (const event of events) history.add(event);
  return history.messages();
}

/** Content as one text: a file is a line that names it. */
export function textOf(content: Content): string {
  if (typeof content === 'string') return content;
  return content
    .map((part) => {
      if (part.type === 'text') return part.text;
      return `[file: ${[part.name, part.mediaType, part.url].filter((fact) => fact !== undefined).join(', ')}]`;
    })
    .join('\n');
}

function asUser({ content }: Said): ModelMessage {
  return { role: 'user', content: textOf(content) };
}

function asAssistant({ text, toolCalls }: Message, results: ReadonlyMap<Id, Result>): ModelMessage[] {
  if (toolCalls.length === 0) return text === '' ? [] : [{ role: 'assistant', content: text }];
  return [
    { role: 'assistant', content: text, toolCalls },
    ...toolCalls.map(({ callId }): ModelMessage => ({
      role: 'tool',
      callId,
      content: resultText(results.get(callId)),
    })),
  ];
}

function resultText(result: Result | undefined): string {
  if (!result) return NO_RESULT;
  const output = typeof result.output === 'string' ? result.output : JSON.stringify(result.output);
  switch (result.outcome) {
    case 'ok':
      return output;
    case 'error':
      return `error: ${output}`;
    case 'interrupted':
      return NO_RESULT;
    case 'outcome_unknown':
      return 'outcome unknown: the call may or may not have taken effect; look before you repeat it';
  }
}
