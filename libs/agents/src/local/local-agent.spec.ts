import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { firstTry, TurnStage } from '#test-kit';
import { LocalAgent } from './local-agent.js';
import type { Machine } from './machine.js';
import { OwnSessions } from './own-sessions.js';

const GIB = 2 ** 30;

const healthy: Machine = {
  cpuCount: () => 4,
  loads: () => [0.5, 0.4, 0.3],
  uptimeS: () => 7200,
  memory: () => ({ totalBytes: 16 * GIB, availableBytes: 10 * GIB, processBytes: 0.2 * GIB }),
  disk: async (path) => ({ path, totalBytes: 100 * GIB, freeBytes: 60 * GIB }),
  workingFolder: () => '/srv',
};

class FewSessions extends OwnSessions {
  readonly asked: string[] = [];

  async look(account: string): ReturnType<OwnSessions['look']> {
    this.asked.push(account);
    return {
      counts: { idle: 2, queued: 0, running: 1 },
      latest: [
        { sessionId: 's1', title: 'Night alerts', state: 'running', lastActivityAt: '2030-01-01T00:00:00.000Z' },
      ],
    };
  }
}

describe('the local agent', () => {
  let stage: TurnStage;
  const sessions = new FewSessions();

  beforeEach(async () => {
    stage = await TurnStage.open();
  });
  afterEach(() => stage.close());

  const ask = async (question: string, machine: Partial<Machine> = {}): Promise<string> => {
    await stage.accept('t', question);
    const agent = new LocalAgent(stage.clock, { ...healthy, ...machine }, sessions);
    const run = stage
      .runner((turn) => agent.run(turn))
      .run(stage.lease(1), firstTry('t'), new AbortController().signal);
    await stage.clock.advance(20_000);
    expect(await run).toEqual({ kind: 'ended', state: 'completed' });
    return (await stage.events()).flatMap((event) => (event.type === 'model.message' ? [event.data.text] : [])).at(-1)!;
  };
  const tools = async (): Promise<string[]> =>
    (await stage.events()).flatMap((event) => (event.type === 'tool.call' ? [event.data.name] : []));

  it.each([
    ['What is the CPU load?', ['load']],
    ['is the disk full', ['disk']],
    ['How much memory and disk space is left?', ['memory', 'disk']],
    ['which sessions are queued?', ['sessions']],
    ['How is the machine?', ['load', 'memory', 'disk', 'sessions']],
    ['CPU 负载怎么样', ['load']],
    ['内存够不够', ['memory']],
    ['磁盘空间还剩多少', ['disk']],
    ['有多少会话在排队', ['sessions']],
    ['整体状态怎么样', ['load', 'memory', 'disk', 'sessions']],
    ['Write me a poem', []],
    ['给我写首诗', []],
  ])('%s is looked up with the tools %j', async (question, expected) => {
    await ask(question);
    expect(await tools()).toEqual(expected);
  });

  it('gives the figures and what follows from them', async () => {
    expect(await ask('How is the machine?')).toBe(
      [
        'All of it looks healthy.',
        '- Load (1/5/15 min) is 0.5 / 0.4 / 0.3 on 4 CPUs, 0.10 per CPU: there is room. Up for 2 h.',
        '- Of 16.0 GiB of memory 10.0 GiB (63%) are available: plenty. This process holds 205 MiB (1%).',
        '- Disk: / is 40% used with 60.0 GiB left: enough space.',
        '- Your sessions: 1 running, 0 queued, 2 idle. The latest: Night alerts (running).',
        'Nothing calls for a next step; comparing these figures again in a while is enough.',
      ].join('\n'),
    );
    expect(sessions.asked.at(-1)).toBe('acc');
  });

  it('puts the worst finding first and says what to look at next', async () => {
    const reply = await ask('memory and disk?', {
      disk: async (path) => ({ path, totalBytes: 100 * GIB, freeBytes: (path === '/' ? 60 : 4) * GIB }),
    });
    const lines = reply.split('\n');
    expect(lines[0]).toBe('Something needs you now.');
    expect(lines[1]).toContain('/ is 40% used with 60.0 GiB left; /srv is 96% used');
    expect(lines.at(-1)).toMatch(/^Next I would find the largest folders below \/srv/);
  });

  it('answers in the language of the question', async () => {
    expect(await ask('磁盘空间')).toContain('空间够用');
  });

  it('says so when it cannot measure something', async () => {
    expect(await ask('disk?', { disk: () => Promise.reject(new Error('no such mount')) })).toContain('no such mount');
  });

  it('says plainly what it can answer, when it is asked for something else', async () => {
    expect(await ask('Write me a poem')).toContain('memory, disk space, your sessions');
  });

  it('streams its reply while it goes on', async () => {
    await ask('disk?');
    expect(stage.live.deltas.length).toBeGreaterThan(10);
  });
});
