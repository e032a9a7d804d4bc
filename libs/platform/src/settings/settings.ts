import { Checked, OneOf, OptionalText, Setting, WholeNumber, Words } from './setting.decorators.js';
import { checkDatabaseUrl, checkModelUrl, checkOff, checkPodId, checkRedisUrl } from './setting-checks.js';

const ROLES = ['api', 'actors'] as const;
const AUTH_MODES = ['dev', 'jwt'] as const;
const AUTH_MODES_SERVED = ['dev'] as const satisfies (typeof AUTH_MODES)[number][];
const AGENTS = ['model', 'local', 'script'] as const;
const AGENTS_SERVED = ['local', 'script'] as const satisfies (typeof AGENTS)[number][];
const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;
const EVICTION_CHECKS = ['refuse', 'warn'] as const;

/** The longest wait that a timer of Node takes. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Everything that can be set, one environment variable each. A value here is the one that applies when the variable is
 * not set; what depends on other settings is filled in by `loadSettings`. An empty variable counts as not set.
 */
export class Settings {
  @Setting('PORT', 3000, 'The port to listen on. 0 takes any free one.')
  @WholeNumber(0, 65_535)
  port = 3000;

  @Setting('HOST', '127.0.0.1 when AUTH_MODE=dev, else 0.0.0.0', 'The address to listen on.')
  @OptionalText()
  host = '127.0.0.1';

  @Setting('ALLOWED_HOSTS', '', 'With AUTH_MODE=dev: further host names that callers may use, with commas between.')
  @Words()
  allowedHosts: string[] = [];

  @Setting(
    'ROLES',
    'api,actors',
    'What this pod does: `api` answers calls, `actors` runs turns. A pod by itself does both.',
  )
  @Words(ROLES)
  roles: (typeof ROLES)[number][] = [...ROLES];

  @Setting(
    'DATABASE_URL',
    'a SQLite file in .butler/',
    'The ledger: `mysql://user:password@host:port/name` or `sqlite:<path>`.',
  )
  @Checked(checkDatabaseUrl)
  databaseUrl = 'sqlite:.butler/butler.sqlite';

  @Setting('DB_POOL_SIZE', 20, 'Connections to the database at once.')
  @WholeNumber(2, 1000)
  dbPoolSize = 20;

  @Setting(
    'REDIS_URL',
    'none: one pod, coordinated in process',
    'Coordination: `redis://…` or `rediss://…`. Goes together with a MySQL DATABASE_URL.',
  )
  @Checked(checkRedisUrl)
  redisUrl: string | null = null;

  @Setting('REDIS_KEY_PREFIX', 'butler:', 'Stands before every key and channel in Redis.')
  @Checked((prefix: string) =>
    /^[A-Za-z0-9._~:-]{1,64}$/.test(prefix) ? null : 'use 1 to 64 letters, digits or . _ ~ : -',
  )
  redisKeyPrefix = 'butler:';

  @Setting('REDIS_EVICTION_CHECK', 'refuse', 'What to do when Redis may evict keys: `refuse` to start, or `warn`.')
  @OneOf(EVICTION_CHECKS)
  redisEvictionCheck: (typeof EVICTION_CHECKS)[number] = 'refuse';

  @Setting('POD_ID', 'the host name', 'The name of this pod. Every start adds a random boot to it.')
  @Checked(checkPodId)
  podId = 'pod';

  @Setting(
    'AUTH_MODE',
    'dev when embedded, else jwt',
    '`dev` takes the caller from the headers x-account-id, x-user-id and x-scope. `jwt` is not available yet.',
  )
  @OneOf(AUTH_MODES, AUTH_MODES_SERVED)
  authMode: (typeof AUTH_MODES)[number] = 'dev';

  @Setting('LOG_LEVEL', 'info', 'One of fatal, error, warn, info, debug, trace, silent.')
  @OneOf(LOG_LEVELS)
  logLevel: (typeof LOG_LEVELS)[number] = 'info';

  @Setting('LEASE_TTL_MS', 30_000, 'How long a session stays owned without a renewal.')
  @WholeNumber(100, MAX_TIMER_MS)
  leaseTtlMs = 30_000;

  @Setting('LEASE_RENEW_MS', 10_000, 'How often leases are renewed. Less than half of LEASE_TTL_MS.')
  @WholeNumber(10, MAX_TIMER_MS)
  leaseRenewMs = 10_000;

  @Setting('ACTOR_IDLE_MS', 300_000, 'How long a session without work stays owned.')
  @WholeNumber(0, MAX_TIMER_MS)
  actorIdleMs = 300_000;

  @Setting('SWEEP_INTERVAL_MS', 5000, 'How often this pod looks for what a lost notification would have told it.')
  @WholeNumber(50, MAX_TIMER_MS)
  sweepIntervalMs = 5000;

  @Setting('PRESENCE_CHECK_MS', 100, 'How often this pod looks whether the others still listen; 0: never.')
  @WholeNumber(0, MAX_TIMER_MS)
  presenceCheckMs = 100;

  @Setting('PRESENCE_MISSES', 3, 'Looks in a row that find nobody, until a pod is taken for dead.')
  @WholeNumber(1, 1000)
  presenceMisses = 3;

  @Setting('REFILL_WAIT_MS', 1000, 'How long new owners wait after Redis lost its contents.')
  @WholeNumber(0, MAX_TIMER_MS)
  refillWaitMs = 1000;

  @Setting('TURN_RECORD_TTL_MS', 259_200_000, 'How long Redis keeps the lifecycle record of a turn.')
  @WholeNumber(1000, MAX_TIMER_MS)
  turnRecordTtlMs = 259_200_000;

  @Setting('ACTOR_MAX_ACTIVE', 200, 'Turns that run at once on this pod.')
  @WholeNumber(1, 100_000)
  actorMaxActive = 200;

  @Setting('QUEUE_MAX_PENDING', 100, 'Messages that may wait in one session.')
  @WholeNumber(1, 1_000_000)
  queueMaxPending = 100;

  @Setting('MESSAGE_MAX_BYTES', 262_144, 'The largest request body.')
  @WholeNumber(1024, 16_777_216)
  messageMaxBytes = 262_144;

  @Setting(
    'TURN_MAX_ATTEMPTS',
    5,
    'Attempts at a turn without a newly recorded step, after which it fails as poisoned.',
  )
  @WholeNumber(1, 1000)
  turnMaxAttempts = 5;

  @Setting('STOP_TOOL_WAIT_MS', 5000, 'How long a tool that ignores its stop is waited for.')
  @WholeNumber(0, MAX_TIMER_MS)
  stopToolWaitMs = 5000;

  @Setting('SHUTDOWN_GRACE_MS', 25_000, 'How long a shutdown takes at most. Less than the grace of the pod.')
  @WholeNumber(100, MAX_TIMER_MS)
  shutdownGraceMs = 25_000;

  @Setting(
    'SHUTDOWN_LINGER_MS',
    '0 when embedded, else 5000',
    'How long calls are still served after the end was announced, so that balancers can look away. Less than SHUTDOWN_GRACE_MS.',
  )
  @WholeNumber(0, MAX_TIMER_MS)
  shutdownLingerMs = 0;

  @Setting('RATE_LIMIT_PER_MINUTE', 0, 'Message POSTs per account and user. Only 0 (off) is available yet.')
  @WholeNumber(0, 1_000_000)
  @Checked(checkOff)
  rateLimitPerMinute = 0;

  @Setting('AGENT', 'local', 'What answers messages: `local`, or `script` for tests. `model` is not available yet.')
  @OneOf(AGENTS, AGENTS_SERVED)
  agent: (typeof AGENTS)[number] = 'local';

  @Setting('MODEL_BASE_URL', 'none', 'An OpenAI-compatible endpoint. Not available yet.')
  @Checked(checkModelUrl)
  modelBaseUrl: string | null = null;

  @Setting('SCRIPT_DIR', 'none', 'The folder where the script agent writes; made when it is not there.')
  @OptionalText()
  scriptDir: string | null = null;

  @Setting('NODE_ENV', 'none', '`production` refuses what is for development only: AUTH_MODE=dev and AGENT=script.')
  @OptionalText()
  nodeEnv: string | null = null;

  /** No REDIS_URL and a SQLite ledger: one pod, the same code. */
  get embedded(): boolean {
    return this.redisUrl === null;
  }
}
