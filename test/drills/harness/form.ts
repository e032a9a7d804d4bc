import type { LoadForm } from './load.js';

/** How long and how hard; each drill has a long form and, of the same code, a short one. */
export interface Form extends LoadForm {
  /** How often the balancer looks at the pods' probes. */
  probeEveryMs: number;
  /** Settings of the pods beside the defaults. */
  settings: Record<string, string>;
  /** The longest that a session with work may stand still. */
  silenceLimitMs: number;
}

/** The defaults of the product, where the stage of the end-to-end tests has shorter ones. */
const DEFAULTS = {
  SWEEP_INTERVAL_MS: '5000',
  REFILL_WAIT_MS: '1000',
  SHUTDOWN_GRACE_MS: '25000',
  SHUTDOWN_LINGER_MS: '5000',
  LOG_LEVEL: 'warn',
};
/** Far below the lease of 30 s; above a sweep, which finds what a lost notice would have told. */
export const SILENCE_LIMIT_MS = 15_000;
export const LONG = {
  ...{ sessions: 60, ratePerS: 50, stopped: 0.05, probeEveryMs: 500, settings: DEFAULTS },
  silenceLimitMs: SILENCE_LIMIT_MS,
};
/** For a machine of two cores that does other things too. */
export const SHORT = {
  sessions: 24,
  ratePerS: 20,
  stopped: 0.05,
  probeEveryMs: 100,
  silenceLimitMs: SILENCE_LIMIT_MS,
  settings: { ...DEFAULTS, SWEEP_INTERVAL_MS: '1000', REFILL_WAIT_MS: '300', SHUTDOWN_LINGER_MS: '1000' },
};
