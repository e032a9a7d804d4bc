import { getSchemaPath, type OpenAPIObject } from '@nestjs/swagger';

type NestSchema = NonNullable<NonNullable<OpenAPIObject['components']>['schemas']>[string];
export type ReferenceObject = Extract<NestSchema, { $ref: string }>;
/** With the words of JSON Schema that OpenAPI 3.1 knows and Nest's type does not. */
export interface SchemaObject extends Exclude<NestSchema, { $ref: string }> {
  oneOf?: Schema[];
  contains?: Schema;
  propertyNames?: Schema;
}
export type Schema = ReferenceObject | SchemaObject;

export const text: SchemaObject = { type: 'string' };
export const integer: SchemaObject = { type: 'integer' };
export const time: SchemaObject = { type: 'string', format: 'date-time' };

export function ref(name: string): ReferenceObject {
  return { $ref: getSchemaPath(name) };
}

export function array(items: Schema): SchemaObject {
  return { type: 'array', items };
}

export function nullable(schema: Schema): { oneOf: Schema[] } {
  return { oneOf: [schema, { type: 'null' }] };
}

/** An object of these properties and no others; a name that ends in `?` may be left out. */
export function object(properties: Record<string, Schema>): SchemaObject {
  const names = Object.keys(properties);
  return {
    type: 'object',
    properties: Object.fromEntries(names.map((name) => [name.replace(/\?$/, ''), properties[name]!])),
    required: names.filter((name) => !name.endsWith('?')),
    additionalProperties: false,
  };
}

/** A page of a list with an opaque cursor. */
export function list(name: string, item: string): SchemaObject {
  return object({ [name]: array(ref(item)), nextAfter: nullable(text), hasMore: { type: 'boolean' } });
}
