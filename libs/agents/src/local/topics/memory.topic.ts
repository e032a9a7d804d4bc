import type { Machine } from '../machine.js';
import { type Finding, type Language, type Level, percent, size, type Topic } from '../topic.js';

interface MemoryFigures {
  totalBytes: number;
  availableBytes: number;
  /** Resident memory of this process. */
  processBytes: number;
}

/** What is still available, in percent of all. */
const TIGHT_PERCENT = 20;
const SHORT_PERCENT = 10;
/** This process is worth a look of its own when it holds so much of the machine's memory. */
const PROCESS_LARGE_PERCENT = 25;

export function memoryTopic(machine: Machine): Topic<MemoryFigures> {
  return {
    name: 'memory',
    label: { en: 'memory', zh: '内存' },
    words: /\b(memory|ram|rss|heap|oom|swap|leak(s|ing)?)\b|内存|泄漏/i,
    measure: () => Promise.resolve(machine.memory()),
    judge,
  };
}

function judge({ totalBytes, availableBytes, processBytes }: MemoryFigures, language: Language): Finding {
  const available = percent(availableBytes, totalBytes);
  const own = percent(processBytes, totalBytes);
  const isLarge = own >= PROCESS_LARGE_PERCENT;
  const level: Level = available < SHORT_PERCENT ? 'alarm' : available < TIGHT_PERCENT || isLarge ? 'watch' : 'ok';
  if (language === 'zh') {
    const meaning = available < SHORT_PERCENT ? '快用完了' : available < TIGHT_PERCENT ? '偏紧' : '充足';
    return {
      level,
      says: `内存共 ${size(totalBytes)}，可用 ${size(availableBytes)}（${available}%）：${meaning}。本进程常驻 ${size(processBytes)}（${own}%）。`,
      next:
        level === 'ok' ? null : isLarge ? '给本进程做堆快照，找是什么在增长' : '按内存给进程排序（ps aux --sort=-rss）',
    };
  }
  const meaning = available < SHORT_PERCENT ? 'nearly used up' : available < TIGHT_PERCENT ? 'tight' : 'plenty';
  return {
    level,
    says: `Of ${size(totalBytes)} of memory ${size(availableBytes)} (${available}%) are available: ${meaning}. This process holds ${size(processBytes)} (${own}%).`,
    next:
      level === 'ok'
        ? null
        : isLarge
          ? 'take a heap snapshot of this process to see what grows'
          : 'sort the processes by memory (ps aux --sort=-rss)',
  };
}
