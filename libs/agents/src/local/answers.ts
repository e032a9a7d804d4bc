import type { ToolResult } from '#turn-runner';
import type { Finding, Language, Level, Topic } from './topic.js';

/** A question about everything at once. */
const OVERVIEW_WORDS =
  /\b(health(y)?|status|overview|check ?up|check (everything|the (machine|server|system))|diagnos\w*|what('s| is) wrong|how (is|are) (the )?(machine|server|system|things))\b|健康|状态|概况|总览|巡检|检查一下|怎么样|有(没有)?问题/i;

const CJK = /[\u3400-\u9fff]/;

export function languageOf(question: string): Language {
  return CJK.test(question) ? 'zh' : 'en';
}

/** What a question is about; everything for an overview; nothing when it is about something else. */
export function topicsOf<T>(question: string, topics: readonly Topic<T>[]): Topic<T>[] {
  const asked = topics.filter(({ words }) => words.test(question));
  return asked.length === 0 && OVERVIEW_WORDS.test(question) ? [...topics] : asked;
}

export function capabilities(language: Language): string {
  return language === 'zh'
    ? '这个我回答不了：我没有语言模型，只会看这台机器和这个运行时。可以问我：CPU 负载、内存、磁盘空间、你的会话和排队情况，或者“整体状态怎么样”。'
    : 'I cannot answer that: I have no language model, I only look at this machine and this runtime. You can ask me about CPU load, memory, disk space, your sessions and what waits in line, or for the overall status.';
}

export function plan(topics: readonly Pick<Topic<unknown>, 'label'>[], language: Language): string {
  const labels = topics.map(({ label }) => label[language]);
  return language === 'zh' ? `我先看一下：${labels.join('、')}。` : `Let me look at: ${labels.join(', ')}.`;
}

/** The finding of one tool's result; a tool that failed is a finding, too. */
export function findingOf<T>(topic: Topic<T>, { outcome, output }: ToolResult, language: Language): Finding {
  if (outcome === 'ok') return topic.judge(output as T, language);
  const why = JSON.stringify(output);
  const label = topic.label[language];
  return language === 'zh'
    ? { level: 'watch', says: `${label}没能读到：${why}。`, next: `弄清楚为什么读不到${label}` }
    : {
        level: 'watch',
        says: `I could not read ${label}: ${why}.`,
        next: `find out why ${label} cannot be read`,
      };
}

const VERDICTS: Record<Language, Record<Level, string>> = {
  en: {
    ok: 'All of it looks healthy.',
    watch: 'Nothing is on fire, but something is worth a second look.',
    alarm: 'Something needs you now.',
  },
  zh: { ok: '看起来都正常。', watch: '没有紧急问题，但有值得再看一眼的地方。', alarm: '有需要马上处理的问题。' },
};

const SEVERITY: Record<Level, number> = { ok: 0, watch: 1, alarm: 2 };

/** The reply: the verdict first, the worst finding before the others, then what to do next. */
export function reply(findings: readonly Finding[], language: Language): string {
  const sorted = [...findings].sort((a, b) => SEVERITY[b.level] - SEVERITY[a.level]);
  const nexts = sorted.flatMap(({ next }) => (next === null ? [] : [next]));
  const lines = [
    VERDICTS[language][sorted[0]!.level],
    ...sorted.map(({ says }) => `- ${says}`),
    nextLine(nexts, language),
  ];
  return lines.join('\n');
}

function nextLine(nexts: readonly string[], language: Language): string {
  if (language === 'zh')
    return nexts.length > 0
      ? `接下来我会：${nexts.join('；')}。`
      : '接下来没有特别要看的；过一阵再比较一次这些数字就好。';
  if (nexts.length > 0) return `Next I would ${nexts.join('; then ')}.`;
  return 'Nothing calls for a next step; comparing these figures again in a while is enough.';
}
