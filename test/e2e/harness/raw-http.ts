import { request } from 'node:http';
import { connect } from 'node:net';

/** A request as it goes over the wire: the path is not tidied, headers may repeat. */
export interface RawRequest {
  method?: string;
  path?: string;
  headers?: Record<string, string | string[]>;
  body?: string | Buffer;
  /** Without Content-Length, so in chunks. */
  chunked?: boolean;
}

export interface RawAnswer {
  status: number;
  contentType: string;
  text: string;
}

export function sendRequest(pod: { readonly url: string }, raw: RawRequest): Promise<RawAnswer> {
  const { hostname, port } = new URL(pod.url);
  const { method = 'GET', path = '/', headers = {}, body, chunked = false } = raw;
  const length = body !== undefined && !chunked && { 'content-length': String(Buffer.byteLength(body)) };
  return new Promise((done, failed) => {
    const call = request(
      { hostname, port, method, path, headers: { ...headers, ...length }, agent: false },
      (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (piece: string) => (text += piece));
        response.once('end', () =>
          done({ status: response.statusCode!, contentType: response.headers['content-type'] ?? '', text }),
        );
        response.once('error', failed);
      },
    );
    // A server that refuses a body early may close while it is still sent: the answer counts if there is one.
    call.once('error', failed);
    call.end(body);
  });
}

const SOCKET_LIMIT_MS = 500;

/** Sends bytes, whatever they are; what came back until the server closed, or a moment later. */
export function sendBytes(pod: { readonly url: string }, bytes: string | Buffer): Promise<string> {
  const { hostname, port } = new URL(pod.url);
  return new Promise((done) => {
    let text = '';
    const socket = connect(Number(port), hostname, () => socket.write(bytes));
    const limit = setTimeout(() => socket.destroy(), SOCKET_LIMIT_MS);
    socket.setEncoding('latin1').on('data', (piece: string) => (text += piece));
    socket.on('error', () => undefined);
    socket.once('close', () => {
      clearTimeout(limit);
      done(text);
    });
  });
}
