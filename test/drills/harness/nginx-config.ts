import { nginxConf } from '../../../tools/services.mjs';

export interface Balanced {
  port: number;
  /** Answered at /balancer/version by whoever serves under this configuration. */
  version: number;
  /** `host:port` of each pod that is ready. */
  pods?: string[];
}

/**
 * A load balancer as it stands before Butler. What a pod does not take at all goes to the next one, and a pod that failed
 * is left alone for a second; a POST that a pod has got is not sent to another one here, that is for the client to decide.
 * Connections to pods are kept, for less than the five seconds after which a pod closes one that is idle. Streams pass
 * unbuffered, and live as long as the pod says something every 15 s.
 */
export function nginxConfig({ port, version, pods = [] }: Balanced): string {
  const servers = pods.map((pod) => `    server ${pod} max_fails=1 fail_timeout=1s;`);
  const upstream = ['  upstream pods {', ...servers, '    keepalive 32;', '    keepalive_timeout 4s;', '  }'];
  const pass = pods.length > 0 ? 'proxy_pass http://pods;' : 'return 503;';
  return nginxConf(`${pods.length > 0 ? upstream.join('\n') : ''}
  server {
    listen 127.0.0.1:${port};
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header Host $host;
    proxy_connect_timeout 1s;
    proxy_next_upstream error timeout;
    proxy_next_upstream_tries 3;
    location = /balancer/version { return 200 "${version}"; }
    location / {
      proxy_read_timeout 5s;
      ${pass}
    }
    location ~ /stream$ {
      proxy_buffering off;
      proxy_read_timeout 60s;
      ${pass}
    }
  }`);
}
