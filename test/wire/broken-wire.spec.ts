import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { until } from '../e2e/harness/until.js';
import { BrokenWire } from './broken-wire.js';

/** One end of the wire, and what it has heard so far. */
class End {
  heard = '';
  closed = false;

  constructor(private readonly socket: Socket) {
    socket.setEncoding('utf8').on('data', (text: string) => (this.heard += text));
    socket.on('error', () => undefined).on('close', () => (this.closed = true));
  }

  static of(port: number): End {
    return new End(connect(port, '127.0.0.1'));
  }

  say(text: string): void {
    this.socket.write(text);
  }

  hears(text: string): Promise<unknown> {
    return until(`"${text}" is heard`, () => this.heard === text);
  }

  isCut(): Promise<unknown> {
    return until('it is cut', () => this.closed);
  }
}

describe('a wire that breaks', () => {
  /** Answers everything with itself. */
  let echo: Server;
  let wire: BrokenWire;

  beforeEach(async () => {
    echo = createServer((socket) => socket.on('error', () => undefined).pipe(socket));
    echo.listen(0, '127.0.0.1');
    await once(echo, 'listening');
    wire = await BrokenWire.to((echo.address() as { port: number }).port, 'mysql');
  });
  afterEach(async () => {
    await wire.close();
    echo.close();
  });

  const open = async (): Promise<End> => {
    const end = End.of(wire.port);
    end.say('a');
    await end.hears('a');
    return end;
  };

  it('carries what is sent, and puts its own address into a URL', async () => {
    await open();
    expect(wire.url).toBe(`mysql://127.0.0.1:${wire.port}`);
    expect(wire.through('mysql://root:x@db:3306/butler?a=b')).toBe(`mysql://root:x@127.0.0.1:${wire.port}/butler?a=b`);
  });

  it('falls silent: recovered it serves only who comes anew, and going on it brings what was sent meanwhile', async () => {
    const standing = await open();
    wire.goSilent();
    standing.say('b');
    const early = End.of(wire.port);
    early.say('c');
    await until('both stand', () => wire.standing === 2);
    wire.recover();
    await open();
    expect([standing.heard, early.heard, standing.closed]).toEqual(['a', '', false]);
    wire.goOn();
    await standing.hears('ab');
    await early.hears('c');
  });

  it('is slow: what is sent arrives later, and nothing that is sent after it arrives before it', async () => {
    const end = await open();
    const sinceMs = performance.now();
    wire.delay(50);
    end.say('b');
    await until('it is under way', () => end.heard === 'ab');
    expect(performance.now() - sinceMs).toBeGreaterThanOrEqual(99);
    end.say('c');
    wire.delay(0);
    end.say('d');
    await end.hears('abcd');
  });

  it('cuts those that stand, refuses new ones until it recovers, and loses one reply', async () => {
    const standing = await open();
    wire.cut();
    await standing.isCut();
    const losing = await open();
    wire.loseNextReply();
    losing.say('b');
    await losing.isCut();
    expect(losing.heard).toBe('a');
    const kept = await open();
    wire.refuse();
    await End.of(wire.port).isCut();
    kept.say('b');
    await kept.hears('ab');
    wire.recover();
    await open();
  });
});
