export { AdmissionGate, type PostedMessage } from './admission.gate.js';
export { Intake } from './intake.js';
export { IntakeModule } from './intake.module.js';
export { Refusals } from './refusals.js';
export { RetryGate, type RetryRequest } from './retry.gate.js';
export { SpawnGate, type SpawnRequest } from './spawn.gate.js';
export { StopGate, type StopRequest } from './stop.gate.js';
