import type { SessionKey } from '#protocol';

/** A step of an agent that is about to run. */
export interface StepRun {
  session: SessionKey;
  turnId: string;
  generation: number;
  /** `model:1` or `tool:<callId>`. */
  step: string;
  epoch: number;
  /** Of a tool: whether running it twice does no harm. */
  isRepeatable?: boolean;
}
