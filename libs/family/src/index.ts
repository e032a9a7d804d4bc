export { childTurnId, isReservedTurnId, reportTurnId } from './child-ids.js';
export { type Decided, Family, type Reported } from './family.js';
export { FamilyModule } from './family.module.js';
export { Heads } from './heads.js';
export type { ChildEnd } from './report-content.js';
export { Reports } from './reports.js';
