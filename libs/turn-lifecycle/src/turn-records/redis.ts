import { type Id, type KeyNames, type Ref, type SessionKey, turnRank, type TurnState } from '#protocol';
import type { RedisConnection, Script } from '#platform';
import { stopNotice } from '../stop-notice.js';
import { TurnRecords } from '../turn-records.js';

/** The lifecycle records as Redis hashes; see the head of the script. */
export class RedisTurnRecords extends TurnRecords {
  private readonly recordScript: Script<0 | 1>;

  constructor(
    private readonly redis: RedisConnection,
    private readonly keys: KeyNames,
    private readonly turnRecordTtlMs: number,
  ) {
    super();
    this.recordScript = redis.scripts.load(new URL('../scripts/record.lua', import.meta.url));
  }

  async advance(session: SessionKey, ref: Ref, state: TurnState): Promise<boolean> {
    const news = await this.recordScript(
      [this.keys.turn(session, ref.turnId), this.keys.lock(session)],
      [
        turnRank(ref.generation, state),
        this.turnRecordTtlMs,
        state,
        ref.generation,
        session.sessionId,
        this.keys.podChannel(''),
        stopNotice(session, ref, state) ?? '',
      ],
    );
    return news === 1;
  }

  async read(session: SessionKey, turnId: Id): Promise<{ generation: number; state: TurnState } | null> {
    const key = this.keys.turn(session, turnId);
    const [generation, state] = await this.redis.run((redis) => redis.hmget(key, 'generation', 'state'));
    return generation && state ? { generation: Number(generation), state: state as TurnState } : null;
  }
}
