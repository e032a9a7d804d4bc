export interface Service {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  stop(): Promise<void>;
}

export interface ServiceOptions {
  /** The data folder; kept when it is given. */
  dir?: string;
  port?: number;
  /** Further arguments of the server. */
  args?: string[];
  say?: (line: string) => void;
}

export function startRedis(options?: ServiceOptions): Promise<Service>;
export function startMariaDb(options?: ServiceOptions): Promise<Service>;

export interface NginxOptions extends Pick<ServiceOptions, 'dir' | 'port' | 'say'> {
  /** What stands in its nginx.conf. */
  config: (at: { dir: string; port: number }) => string;
}

export function nginxConf(http: string): string;
export function startNginx(options: NginxOptions): Promise<Service>;
