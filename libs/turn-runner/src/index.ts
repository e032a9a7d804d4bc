export {
  Agent,
  AgentError,
  type ModelReply,
  type ModelStep,
  type RecordedReply,
  type Tool,
  type Toolbox,
  type ToolResult,
  type ToolRun,
  type TurnContext,
} from './agent.js';
export { Absorption } from './absorption.js';
export { ChildDoor } from './children.js';
export { Finish } from './finish.js';
export { textOf } from './history.js';
export { StartGate } from './start-gate.js';
export { TurnRunner } from './turn-runner.js';
export { TurnRunnerModule } from './turn-runner.module.js';
