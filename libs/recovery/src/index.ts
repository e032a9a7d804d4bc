export { PartitionFilling } from './partition-filling.js';
export { Reconciler } from './reconciler.js';
export { Recovery } from './recovery.js';
export { RecoveryModule } from './recovery.module.js';
