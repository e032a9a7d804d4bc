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
export { type ExitCause, LeaveSignal, type YieldReason } from './attempt-exit.js';
export { Finish } from './finish.js';
export { historyOf, textOf } from './history.js';
export { StartGate } from './start-gate.js';
export { TEXT_PIECE_MS } from './text-stream.js';
export { TOOL_OUTPUT_MAX_BYTES } from './tool-output.js';
export { TurnRunner } from './turn-runner.js';
export { TurnRunnerModule } from './turn-runner.module.js';
