import type { IncomingMessage } from 'node:http';
import type { Params } from 'nestjs-pino';
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
