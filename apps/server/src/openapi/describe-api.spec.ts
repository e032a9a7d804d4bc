import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { CalledPod } from '../http/called-pod.js';

let pod: CalledPod;
beforeAll(async () => {
  pod = await CalledPod.start();
});
afterAll(() => pod.stop());

describe('the description', () => {
  interface Operation {
    responses: Record<string, { content?: Record<string, unknown> }>;
    requestBody?: unknown;
  }
  it('names every route, its answers and its problems, and refers to nothing that is not there', async () => {
    const { body } = await pod.call('GET', '/openapi.json');
    const routes = body['paths'] as Record<string, Record<string, Operation>>;
    expect(
      Object.entries(routes)
        .flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method} ${path}`))
        .sort(),
    ).toEqual([
      'get /health/live',
      'get /health/ready',
      'get /health/startup',
      'get /v1/admin/sessions/{account}/{sessionId}/ownership',
      'get /v1/sessions',
      'get /v1/sessions/{sessionId}',
      'get /v1/sessions/{sessionId}/events',
      'get /v1/sessions/{sessionId}/stream',
      'get /v1/sessions/{sessionId}/turns',
      'get /v1/sessions/{sessionId}/turns/{turnId}',
      'patch /v1/sessions/{sessionId}',
      'post /v1/sessions',
      'post /v1/sessions/{sessionId}/messages',
    ]);
    for (const [path, methods] of Object.entries(routes)) {
      for (const [method, { responses, requestBody }] of Object.entries(methods)) {
        if (path.startsWith('/health')) continue;
        expect([path, method, Object.keys(responses)]).toEqual([
          path,
          method,
          expect.arrayContaining(['400', '401', '403', '500']),
        ]);
        expect([path, method, requestBody !== undefined]).toEqual([path, method, method !== 'get']);
        for (const { content } of Object.values(responses)) expect(content).toBeDefined();
      }
    }
    const names = Object.keys((body['components'] as { schemas: object }).schemas);
    const referred = [...JSON.stringify(body).matchAll(/"#\/components\/schemas\/([^"]+)"/g)].map(([, name]) => name);
    expect(referred.filter((name) => !names.includes(name!))).toEqual([]);
  });

  it('is a page too', async () => {
    const response = await fetch(`${pod.url}/docs`);
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
    const page = await response.text();
    for (const [, part] of page.matchAll(/(?:src|href)="(\.[^"]+)"/g)) {
      expect([part, (await fetch(new URL(part!, `${pod.url}/docs`))).status]).toEqual([part, 200]);
    }
  });
});
