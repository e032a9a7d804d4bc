import {
  type Id,
  type KeyNames,
  parseOwnerToken,
  podName,
  type Ref,
  type SessionKey,
  turnRank,
  type TurnState,
} from '#protocol';
import { grow, type MemoryStore } from '#platform';
import { stopNotice } from '../stop-notice.js';
import { TurnRecords } from '../turn-records.js';

/** The lifecycle records inside one process. `advance` is the twin of scripts/record.lua. */
export class MemoryTurnRecords extends TurnRecords {
  constructor(
    private readonly store: MemoryStore,
    private readonly keys: KeyNames,
    private readonly turnRecordTtlMs: number,
  ) {
    super();
  }

  async advance(session: SessionKey, ref: Ref, state: TurnState): Promise<boolean> {
    const key = this.keys.turn(session, ref.turnId);
    const fields = { state, generation: String(ref.generation), session: session.sessionId };
    const rank = turnRank(ref.generation, state);
    const news = grow(this.store, key, rank, this.turnRecordTtlMs, fields);
    const record = this.store.hash(key);
    const again = record.get('rank') === String(rank) && record.get('state') === state;
    const notice = stopNotice(session, ref, state);
    const token = this.store.get(this.keys.lock(session));
    if (notice && token !== null && (news || again)) {
      this.store.publish(this.keys.podChannel(podName(parseOwnerToken(token))), notice);
    }
    return news;
  }

  async read(session: SessionKey, turnId: Id): Promise<{ generation: number; state: TurnState } | null> {
    const record = this.store.hash(this.keys.turn(session, turnId));
    const generation = record.get('generation');
    return generation ? { generation: Number(generation), state: record.get('state') as TurnState } : null;
  }
}
