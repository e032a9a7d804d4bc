export { type ComposedPod, composePod, lonelyCoordination } from './composition.js';
export { ManualClock } from './manual-clock.js';
export { modelInputFaults } from './model-input-validator.js';
export {
  answers,
  refuses,
  type ScriptedAnswer,
  ScriptedFetch,
  ScriptedStream,
  silent,
  unreachable,
} from './scripted-fetch.js';
export { ALL_SCHEMAS, DATABASE_KINDS, type DatabaseKind, TestDatabase } from './test-database.js';
export { firstTry, TurnStage } from './turn-stage.js';
