import { setTimeout as pause } from 'node:timers/promises';
import type { Pod } from '../../e2e/harness/pod.js';
import type { ServersPlace } from '../../e2e/harness/places.js';
import { Stage } from '../../e2e/harness/stage.js';
import { SeededRandom } from '../../simulation/seeded-random.js';
import { Balancer } from './balancer.js';
import { DrillServers, type ServersWanted } from './drill-servers.js';
import { Fleet } from './fleet.js';
import type { Form } from './form.js';
import { Load } from './load.js';
import { Watchers } from './watchers.js';

const WATCHED = 20;
const SEED = 7;

export type Say = (line: string) => void;

export interface FieldWanted {
  servers: ServersWanted;
  pods: number;
}

/** What a drill is played on: servers, pods, the balancer before them, users and watchers. */
export class Field {
  private readonly random = new SeededRandom(SEED);
  private readonly sinceMs = performance.now();

  private constructor(
    readonly servers: DrillServers,
    readonly stage: Stage<ServersPlace>,
    readonly fleet: Fleet,
    readonly balancer: Balancer,
    readonly load: Load,
    readonly watchers: Watchers,
    private readonly tell: Say,
  ) {}

  /** Does the work on a field of its own, under load from its beginning on, and takes all away again. */
  static async with<T>(wanted: FieldWanted, form: Form, tell: Say, work: (field: Field) => Promise<T>): Promise<T> {
    const ends: (() => Promise<unknown>)[] = [];
    try {
      const servers = await DrillServers.open(wanted.servers);
      ends.unshift(() => servers.close());
      const stage = await Stage.onServers(servers.given);
      ends.unshift(() => stage.end());
      let answer: T | undefined;
      await stage.watch(async () => {
        const fleet = new Fleet(stage, { ...servers.settingsFor(stage.place), ...form.settings });
        await fleet.start(wanted.pods);
        const balancer = await Balancer.open(fleet, form.probeEveryMs);
        ends.unshift(() => balancer.close());
        const load = new Load(balancer.url, form, new SeededRandom(SEED));
        await load.warmUp();
        const watchers = new Watchers(load.client, load.sessions.slice(0, WATCHED));
        await watchers.begin();
        answer = await work(new Field(servers, stage, fleet, balancer, load, watchers, tell));
      });
      return answer as T;
    } finally {
      for (const end of ends) await end().catch((error: unknown) => tell(`could not clear away: ${String(error)}`));
    }
  }

  /** A line of progress, behind the seconds since the beginning. */
  say(line: string): void {
    this.tell(`${((performance.now() - this.sinceMs) / 1000).toFixed(1).padStart(6)} s  ${line}`);
  }

  /** Load and nothing else, for so long. */
  async rest(ms: number): Promise<void> {
    await pause(ms);
    const { accepted, failures } = this.load;
    this.say(`${accepted.length} messages accepted, ${failures.posts} posts failed`);
  }

  anyPod(): Pod {
    return this.random.pick(this.fleet.pods);
  }

  /** The pod that runs the most steps just now. */
  busiestPod(): Pod {
    const open = this.stage.calls().filter(({ endNs }) => endNs === null);
    const stepsOf = (pod: Pod): number => open.filter((call) => call.pod === pod.name).length;
    return this.fleet.pods.reduce((a, b) => (stepsOf(b) > stepsOf(a) ? b : a));
  }
}
