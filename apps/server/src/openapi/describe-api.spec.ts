import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Validator } from '@seriousme/openapi-schema-validator';
import { CalledPod } from '../../../../test/called-pod.js';

let pod: CalledPod;
beforeAll(async () => {
  pod = await CalledPod.start();
});
afterAll(() => pod.stop());

describe('the description', () => {
  interface Operation {
    responses: Record<string, { description: string; content?: Record<string, unknown> }>;
    requestBody?: unknown;
    parameters?: { in: string; name: string }[];
  }
  type Schema = Record<string, unknown> & { properties: Record<string, Record<string, unknown>> };
  const schemas = async (): Promise<Record<string, Schema>> => {
    const { body } = await pod.call('GET', '/openapi.json');
    return (body['components'] as { schemas: Record<string, Schema> }).schemas;
  };

  it('is valid OpenAPI 3.1, and no word of 3.0 is left in it', async () => {
    const { body } = await pod.call('GET', '/openapi.json');
    expect(await new Validator().validate(structuredClone(body))).toEqual({ valid: true });
    expect(body['openapi']).toBe('3.1.0');
    expect(JSON.stringify(body)).not.toContain('"nullable"');
    const { discriminator } = (await schemas())['Event']!;
    expect((discriminator as { mapping: object }).mapping).toMatchObject({
      'turn.started': '#/components/schemas/Event_turn.started',
    });
  });

  it('says what a body may hold, with its limits, and that nothing else is taken', async () => {
    const { PostMessageDto, CreateSessionDto, ChangeSessionDto, Id, Meta, Content } = await schemas();
    for (const body of [PostMessageDto, CreateSessionDto, ChangeSessionDto]) {
      expect(body).toMatchObject({ type: 'object', additionalProperties: false });
    }
    expect(PostMessageDto!.properties['mode']).toMatchObject({ enum: ['enqueue', 'steer', 'interrupt', 'reject'] });
    const title = { type: 'string', maxLength: 256, description: 'At most 256 UTF-16 units' };
    expect(CreateSessionDto!.properties['title']).toEqual(title);
    expect(ChangeSessionDto!.properties).toEqual({
      title: { oneOf: [title, { type: 'null' }] },
      metadata: { oneOf: [{ $ref: '#/components/schemas/Meta' }, { type: 'null' }] },
    });
    expect(Id).toMatchObject({ pattern: '^[A-Za-z0-9._~-]{1,128}$', not: { enum: ['.', '..'] } });
    expect(Meta).toMatchObject({ maxProperties: 64, propertyNames: { minLength: 1, maxLength: 128 } });
    expect(Meta!['additionalProperties']).toMatchObject({
      oneOf: expect.arrayContaining([{ type: 'string', maxLength: 4096 }]),
    });
    expect(Content).toMatchObject({
      oneOf: [
        { type: 'string', pattern: '\\S' },
        { type: 'array', minItems: 1, maxItems: 100, contains: expect.anything() },
      ],
    });
    for (const [schema, limits] of [
      [Meta, ['64', '128', '4096']],
      [Content, ['100']],
    ] as const) {
      for (const limit of limits) expect(schema!['description']).toContain(limit);
    }
  });

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
      'patch /v1/sessions/{sessionId}/turns/{turnId}',
      'post /v1/sessions',
      'post /v1/sessions/{sessionId}/messages',
      'post /v1/sessions/{sessionId}/turns/{turnId}/retry',
      'post /v1/sessions/{sessionId}/turns/{turnId}/stop',
    ]);
    for (const [path, methods] of Object.entries(routes)) {
      for (const [method, { responses, requestBody, parameters = [] }] of Object.entries(methods)) {
        const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
        expect([path, parameters.filter((each) => each.in === 'path').map(({ name }) => name)]).toEqual([path, named]);
        if (path.startsWith('/health')) continue;
        expect([path, method, Object.keys(responses)]).toEqual([
          path,
          method,
          expect.arrayContaining(['400', '401', '403', '500']),
        ]);
        expect([path, method, requestBody !== undefined]).toEqual([path, method, method !== 'get']);
        for (const { description, content } of Object.values(responses)) {
          expect(content).toBeDefined();
          expect([path, method, description]).toEqual([path, method, expect.not.stringMatching(/\n/)]);
        }
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
