import type { Machine } from '../machine.js';
import type { Finding, Language, Level, Topic } from '../topic.js';

interface LoadFigures {
  cpus: number;
  load1: number;
  load5: number;
  load15: number;
  uptimeHours: number;
}

/** Runnable tasks per CPU, over five minutes. */
const BUSY_PER_CPU = 0.7;
const OVERLOADED_PER_CPU = 1;
/** The last minute counts as rising when it is so much above the last quarter of an hour. */
const RISING_FACTOR = 1.5;

export function loadTopic(machine: Machine): Topic<LoadFigures> {
  return {
    name: 'load',
    label: { en: 'load', zh: '负载' },
    words:
      /\b(loads?|cpus?|busy|slow|uptime|processors?|lag(gy)?)\b|负载|处理器|运行时间|运行了?多久|繁忙|卡顿|很慢|变慢/i,
    measure() {
      const [load1, load5, load15] = machine.loads().map((load) => Math.round(load * 100) / 100);
      const uptimeHours = Math.round(machine.uptimeS() / 360) / 10;
      return Promise.resolve({ cpus: machine.cpuCount(), load1: load1!, load5: load5!, load15: load15!, uptimeHours });
    },
    judge,
  };
}

function judge(figures: LoadFigures, language: Language): Finding {
  const { cpus, load1, load5, load15, uptimeHours } = figures;
  const perCpu = load5 / Math.max(1, cpus);
  const level: Level = perCpu >= OVERLOADED_PER_CPU ? 'alarm' : perCpu >= BUSY_PER_CPU ? 'watch' : 'ok';
  const isRising = load1 > load15 * RISING_FACTOR && load1 > cpus * BUSY_PER_CPU;
  const loads = `${load1} / ${load5} / ${load15}`;
  if (language === 'zh') {
    const meaning = { ok: '还有余量', watch: '比较忙', alarm: '任务在排队等 CPU' }[level];
    return {
      level: isRising && level === 'ok' ? 'watch' : level,
      says: `负载（1/5/15 分钟）${loads}，${cpus} 个 CPU，平均每个 ${perCpu.toFixed(2)}：${meaning}${isRising ? '，而且最近一分钟在上升' : ''}。已运行 ${uptimeHours} 小时。`,
      next: level !== 'ok' || isRising ? '看哪些进程占用 CPU 最多（top -o %CPU）' : null,
    };
  }
  const meaning = { ok: 'there is room', watch: 'it is busy', alarm: 'tasks wait for a CPU' }[level];
  return {
    level: isRising && level === 'ok' ? 'watch' : level,
    says: `Load (1/5/15 min) is ${loads} on ${cpus} CPUs, ${perCpu.toFixed(2)} per CPU: ${meaning}${isRising ? ', and the last minute is rising' : ''}. Up for ${uptimeHours} h.`,
    next: level !== 'ok' || isRising ? 'see which processes use the CPU most (top -o %CPU)' : null,
  };
}
