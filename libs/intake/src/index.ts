export { AdmissionGate, type PostedMessage } from './admission.gate.js';
export { Intake } from './intake.js';
export { IntakeModule } from './intake.module.js';
