import type { INestApplication } from '@nestjs/common';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import { ref } from './schema-shorthand.js';
import { schemas } from './schemas.js';

const HEADERS = [
  ['x-account-id', 'dev', 'The account'],
  ['x-user-id', 'dev', 'The user in it'],
  ['x-scope', 'admin operator', 'What the user may do: user, admin, operator, with spaces between'],
] as const;

/** Serves the OpenAPI description at /openapi.json and as a page at /docs. To be called before the app listens. */
export function describeApi(app: INestApplication): void {
  const builder = new DocumentBuilder()
    // The first version whose schemas are JSON Schema: null is a type there, not a flag beside one.
    .setOpenAPIVersion('3.1.0')
    .setTitle('Butler')
    .setDescription(
      'A session runtime for AI-agent products. Times are ISO 8601 UTC. Refusals are application/problem+json.',
    )
    .setVersion('1');
  for (const [name, fallback, description] of HEADERS) {
    builder.addGlobalParameters({
      in: 'header',
      name,
      required: false,
      description,
      schema: { type: 'string', default: fallback },
    });
  }
  const document = SwaggerModule.createDocument(app, builder.build(), {
    operationIdFactory: (controller, method) => `${controller.replace(/Controller$/, '').toLowerCase()}_${method}`,
  });
  namePathParameters(document);
  // Those that Nest finds are the bodies of requests, and requestValidation refuses fields that they do not have.
  const bodies = Object.entries(document.components?.schemas ?? {}).map(([name, schema]) => [
    name,
    { ...schema, additionalProperties: false },
  ]);
  document.components = { schemas: { ...Object.fromEntries(bodies), ...schemas() } };
  SwaggerModule.setup('docs', app, document, {
    jsonDocumentUrl: 'openapi.json',
    raw: ['json'],
    customSiteTitle: 'Butler',
  });
}

/** Nest overlooks the parameters of a path whose type is not a class; here all of them are ids. */
function namePathParameters({ paths }: OpenAPIObject): void {
  for (const [path, operations] of Object.entries(paths)) {
    const parameters = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => {
      return { in: 'path', name: name!, required: true, schema: ref('Id') };
    });
    for (const operation of Object.values(operations as Record<string, { parameters?: unknown[] }>)) {
      operation.parameters = [...parameters, ...(operation.parameters ?? [])];
    }
  }
}
