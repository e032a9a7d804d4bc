import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import helmet from 'helmet';
import { PinoLogger } from 'nestjs-pino';
import { Clock, Randomness, type Settings, StepPoints, SystemClock, SystemRandomness } from '#platform';
import { allowedHosts } from './auth/allowed-hosts.js';
import { type Foundations, openFoundations } from './foundations.js';
import { FrontDoor } from './http/front-door.js';
import { assertUtf8, refuseReservedNames } from './http/json-body.js';
import { requestId } from './http/request-id.js';
import { PodLogger } from './logging.js';
import { describeApi } from './openapi/describe-api.js';
import { PodModule } from './pod.module.js';

export interface Pod {
  /** Where it listens, e.g. `http://127.0.0.1:3000`. */
  readonly url: string;
  /** For specs: what the pod is made of. */
  readonly app: NestExpressApplication;
  /** Ends it in order, within SHUTDOWN_GRACE_MS. Safe to call twice. */
  stop(): Promise<void>;
}

export interface PodOptions {
  settings: Settings;
  stepPoints?: StepPoints;
  clock?: Clock;
  randomness?: Randomness;
}

/**
 * Starts one pod in this process; resolves when it listens. SIGTERM and SIGINT end it and then the process, with exit
 * code 0.
 * @throws Error that says what is away or in use; nothing is left open then
 */
export async function startPod(options: PodOptions): Promise<Pod> {
  const { settings, stepPoints: steps = new StepPoints() } = options;
  const { clock = new SystemClock(), randomness = new SystemRandomness() } = options;
  const foundations = await openFoundations(settings, { clock, randomness, steps });
  const app = await build(
    settings,
    PodModule.of({ settings, clock, randomness, steps, ...foundations }),
    foundations,
    randomness,
  );
  try {
    await app.listen(settings.port, settings.host);
  } catch (error) {
    await app.close();
    throw new Error(whyNotListening(error as NodeJS.ErrnoException, settings), { cause: error });
  }
  let stopped: Promise<void> | null = null;
  const stop = (): Promise<void> => (stopped ??= app.close().finally(() => forgetSignals()));
  const forgetSignals = endOnSignals(stop);
  return { url: await app.getUrl(), app, stop };
}

async function build(
  settings: Settings,
  module: ReturnType<typeof PodModule.of>,
  { database, coordination }: Foundations,
  randomness: Randomness,
): Promise<NestExpressApplication> {
  try {
    const app = await NestFactory.create<NestExpressApplication>(module, {
      abortOnError: false,
      bufferLogs: true,
      bodyParser: false,
    });
    app.useLogger(new PodLogger(await app.resolve(PinoLogger), {}));
    receive(app, settings, randomness);
    describeApi(app);
    return app;
  } catch (error) {
    await coordination.close();
    await database.close();
    throw error;
  }
}

/** Which setting a failed listen means, and what to do. */
function whyNotListening({ code, message }: NodeJS.ErrnoException, { port, host }: Settings): string {
  switch (code) {
    case 'EADDRINUSE':
      return `Port ${port} is in use: stop what listens there, or set PORT to another one.`;
    case 'EACCES':
      return `PORT=${port}: this user may not listen there; set PORT to another one.`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `HOST=${host} does not resolve: set HOST to an address of this machine.`;
    case 'EADDRNOTAVAIL':
      return `HOST=${host} is no address of this machine: set HOST to one that is.`;
    default:
      return `HOST=${host} with PORT=${port}: ${message}`;
  }
}

/** What every request passes before it reaches a route, in this order. */
function receive(app: NestExpressApplication, settings: Settings, randomness: Randomness): void {
  app.disable('x-powered-by');
  app.set('etag', false);
  app.use(requestId(randomness));
  app.use(app.get(FrontDoor).enter);
  // The pod itself speaks plain HTTP, so a page of it must not ask for its parts over HTTPS.
  app.use(
    helmet({
      contentSecurityPolicy: { directives: { upgradeInsecureRequests: null } },
      strictTransportSecurity: false,
    }),
  );
  if (settings.authMode === 'dev') app.use(allowedHosts(settings.allowedHosts));
  const json = { limit: settings.messageMaxBytes, type: 'application/json', verify: assertUtf8 };
  app.useBodyParser('json', json);
  app.use(refuseReservedNames);
}

function endOnSignals(stop: () => Promise<void>): () => void {
  const end = (): void => {
    void stop().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  };
  const signals = ['SIGTERM', 'SIGINT'] as const;
  for (const signal of signals) process.on(signal, end);
  return () => {
    for (const signal of signals) process.off(signal, end);
  };
}
