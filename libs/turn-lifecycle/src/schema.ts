import type { SqlSchema } from '#platform';
import { Turn1764500000001 } from './migrations/1764500000001-turn.js';
import { StopsOfFamilies1764600000001 } from './migrations/1764600000001-stops-of-families.js';
import { turnEntity } from './turn.entity.js';

/** The table `turn`. */
export const TURN_LIFECYCLE_SCHEMA: SqlSchema = {
  entities: (kind) => [turnEntity(kind)],
  migrations: [Turn1764500000001, StopsOfFamilies1764600000001],
};
