export { ManualClock } from './manual-clock.js';
export { ALL_SCHEMAS, DATABASE_KINDS, type DatabaseKind, TestDatabase } from './test-database.js';
