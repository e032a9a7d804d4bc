import type { IncomingMessage } from 'node:http';
import { Logger, type Params } from 'nestjs-pino';
import type { Settings } from '#platform';

/** JSON lines. A line per request, but not for probes; no header, which may hold a secret. */
export function logging({ logLevel, podId }: Pick<Settings, 'logLevel' | 'podId'>): Params {
  return {
    pinoHttp: {
      level: logLevel,
      base: { pod: podId },
      genReqId: (request: IncomingMessage) => request.id,
      quietReqLogger: true,
      autoLogging: { ignore: (request: IncomingMessage) => request.url?.startsWith('/health/') ?? false },
      serializers: {
        req: ({ method, url }: { method: string; url: string }) => ({ method, url }),
        res: ({ statusCode }: { statusCode: number }) => ({ statusCode }),
      },
    },
  };
}

/** What the framework tells about itself at every start. */
const WIRING = new Set(['NestFactory', 'InstanceLoader', 'RoutesResolver', 'RouterExplorer', 'NestApplication']);

/** The framework's wiring is told at `debug`, so that what the pod itself says at its start can be seen. */
export class PodLogger extends Logger {
  override log(message: unknown, ...more: unknown[]): void {
    if (WIRING.has(String(more.at(-1)))) this.debug(message, ...more);
    else super.log(message, ...more);
  }

  /** What has gone wrong with it ends the start, and `startPod` says it in one line. */
  override error(message: unknown, ...more: unknown[]): void {
    if (WIRING.has(String(more.at(-1)))) this.debug(message, ...more);
    else super.error(message, ...more);
  }
}
