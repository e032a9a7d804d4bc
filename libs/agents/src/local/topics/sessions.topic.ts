import type { OwnSession, OwnSessions } from '../own-sessions.js';
import type { Finding, Language, Level, Topic } from '../topic.js';

interface SessionFigures {
  counts: Record<OwnSession['state'], number>;
  latest: OwnSession[];
}

const LATEST = 5;
/** So many sessions that wait for each one that runs look like a jam. */
const JAM_FACTOR = 3;

export function sessionsTopic(sessions: OwnSessions): Topic<SessionFigures> {
  return {
    name: 'sessions',
    label: { en: 'your sessions', zh: '你的会话' },
    words: /\b(sessions?|turns?|queues?|queued|conversations?|backlog|butlers?)\b|会话|队列|排队|积压|对话/i,
    measure: (account) => sessions.look(account, LATEST),
    judge,
  };
}

function judge({ counts: { idle, queued, running }, latest }: SessionFigures, language: Language): Finding {
  const isJammed = queued > 0 && queued >= JAM_FACTOR * Math.max(1, running);
  const level: Level = isJammed ? 'watch' : 'ok';
  const zh = language === 'zh';
  const states = zh
    ? { idle: '空闲', queued: '排队', running: '运行' }
    : { idle: 'idle', queued: 'queued', running: 'running' };
  const list = latest.map(({ sessionId, title, state }) => `${title ?? sessionId} (${states[state]})`);
  if (zh) {
    return {
      level,
      says: `你的会话：运行 ${running}，排队 ${queued}，空闲 ${idle}${isJammed ? '；排队的明显多于运行的' : ''}。${list.length > 0 ? `最近的：${list.join('、')}。` : ''}`,
      next: isJammed ? '看是否有会话长时间没有新事件，以及各 pod 是否已满' : null,
    };
  }
  return {
    level,
    says: `Your sessions: ${running} running, ${queued} queued, ${idle} idle${isJammed ? '; far more wait than run' : ''}.${list.length > 0 ? ` The latest: ${list.join(', ')}.` : ''}`,
    next: isJammed ? 'check for sessions without a new event for long, and whether the pods are full' : null,
  };
}
