import type { DiskFigures, Machine } from '../machine.js';
import { type Finding, type Language, type Level, percent, size, type Topic } from '../topic.js';

/** How full a disk is, in percent. */
const FILLING_PERCENT = 80;
const FULL_PERCENT = 90;

export function diskTopic(machine: Machine): Topic<DiskFigures[]> {
  return {
    name: 'disk',
    label: { en: 'disk space', zh: '磁盘空间' },
    words: /\b(disks?|space|storage|file ?systems?|volumes?|full)\b|磁盘|硬盘|空间|存储/i,
    async measure() {
      const [root, working] = await Promise.all([machine.disk('/'), machine.disk(machine.workingFolder())]);
      // The same figures are the same disk.
      return root.totalBytes === working.totalBytes && root.freeBytes === working.freeBytes ? [root] : [root, working];
    },
    judge,
  };
}

function judge(disks: DiskFigures[], language: Language): Finding {
  const used = disks.map((disk) => ({
    ...disk,
    usedPercent: percent(disk.totalBytes - disk.freeBytes, disk.totalBytes),
  }));
  const fullest = used.reduce((a, b) => (b.usedPercent > a.usedPercent ? b : a));
  const level: Level =
    fullest.usedPercent >= FULL_PERCENT ? 'alarm' : fullest.usedPercent >= FILLING_PERCENT ? 'watch' : 'ok';
  if (language === 'zh') {
    const each = used.map((disk) => `${disk.path} 已用 ${disk.usedPercent}%，剩 ${size(disk.freeBytes)}`).join('；');
    const meaning = { ok: '空间够用', watch: '在变满', alarm: '快满了' }[level];
    return {
      level,
      says: `磁盘：${each}，${meaning}。`,
      next: level === 'ok' ? null : `找出 ${fullest.path} 下最大的目录（du -xh --max-depth=2 | sort -h）`,
    };
  }
  const each = used
    .map((disk) => `${disk.path} is ${disk.usedPercent}% used with ${size(disk.freeBytes)} left`)
    .join('; ');
  const meaning = { ok: 'enough space', watch: 'filling up', alarm: 'nearly full' }[level];
  return {
    level,
    says: `Disk: ${each}: ${meaning}.`,
    next: level === 'ok' ? null : `find the largest folders below ${fullest.path} (du -xh --max-depth=2 | sort -h)`,
  };
}
