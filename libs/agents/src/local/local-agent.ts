import type { Content, Id } from '#protocol';
import type { Clock } from '#platform';
import { Agent, type ModelStep, textOf, type Toolbox, type TurnContext } from '#turn-runner';
import { capabilities, findingOf, languageOf, plan, reply, topicsOf } from './answers.js';
import type { Machine } from './machine.js';
import type { OwnSessions } from './own-sessions.js';
import type { Topic } from './topic.js';
import { diskTopic } from './topics/disk.topic.js';
import { loadTopic } from './topics/load.topic.js';
import { memoryTopic } from './topics/memory.topic.js';
import { sessionsTopic } from './topics/sessions.topic.js';

/** The pause between the words of a reply: fast reading. */
const WORD_PAUSE_MS = 15;
/** What is said at a time: a word with the space behind it, or a few characters of a language without spaces. */
const PIECES = /[\u3000-\u9fff\uff00-\uffef]{1,4}|[^\s\u3000-\u9fff\uff00-\uffef]+\s*|\s+/g;

/**
 * Answers everyday questions about the machine and the runtime, with no key and no network. It works the way an agent
 * with a model does: it decides which tools to call, calls them, and reasons about what they returned. Each of the three
 * is a recorded step, so a turn that changes its owner in the middle goes on where it was.
 */
export class LocalAgent extends Agent {
  private readonly topics: readonly Topic<unknown>[];

  constructor(
    private readonly clock: Clock,
    machine: Machine,
    sessions: OwnSessions,
  ) {
    super();
    this.topics = [
      loadTopic(machine),
      memoryTopic(machine),
      diskTopic(machine),
      sessionsTopic(sessions),
    ] as Topic<unknown>[];
  }

  async run(turn: TurnContext): Promise<void> {
    const question = questionOf(turn.content);
    const language = languageOf(question);
    const topics = topicsOf(question, this.topics);
    if (topics.length === 0) {
      await turn.model((step) => this.stream(step, capabilities(language)));
      return;
    }
    const { toolCalls } = await turn.model(async (step) => {
      await this.stream(step, plan(topics, language));
      return { toolCalls: topics.map(({ name }) => ({ callId: `look-${name}`, name, input: {} })) };
    });
    const results = await turn.tools(toolCalls, this.toolbox(turn.session.account));
    const findings = topics.map((topic, at) => findingOf(topic, results[at]!, language));
    await turn.model((step) => this.stream(step, reply(findings, language)));
  }

  private toolbox(account: Id): Toolbox {
    const looks = this.topics.map(
      (topic) => [topic.name, { repeatable: () => true, run: () => topic.measure(account) }] as const,
    );
    return new Map(looks);
  }

  private async stream(step: ModelStep, text: string): Promise<Record<string, never>> {
    for (const [piece] of text.matchAll(PIECES)) {
      step.say(piece);
      await this.clock.sleep(WORD_PAUSE_MS, step.signal);
    }
    return {};
  }
}

/** The words of the question; the names of files are not part of it. */
function questionOf(content: Content): string {
  return typeof content === 'string' ? content : textOf(content.filter(({ type }) => type === 'text'));
}
