import { Injectable, type PipeTransform, ValidationPipe } from '@nestjs/common';
import type { ValidationError } from 'class-validator';
import { ButlerError, type FieldError, type Id, isId } from '#protocol';
import { FAULTS, type FieldCheck, ID_RULE } from './field.decorators.js';

/** Checks bodies and queries against their class; fields that the class does not have are refused. */
export function requestValidation(): ValidationPipe {
  return new ValidationPipe({
    whitelist: true,
    forbidNonWhitelisted: true,
    transform: true,
    exceptionFactory: (errors) => validationFailed(errors.flatMap(fieldErrors)),
  });
}

export function validationFailed(errors: FieldError[]): ButlerError {
  const [first] = errors;
  const detail = first ? `${first.path || 'The body'} ${first.message}.` : 'The request is not valid.';
  return new ButlerError(
    'validation_failed',
    errors.length > 1 ? `${detail} ${errors.length} faults in all.` : detail,
    { errors },
  );
}

function fieldErrors(error: ValidationError): FieldError[] {
  const context = (error.contexts?.[FAULTS] ?? {}) as { check?: FieldCheck };
  return Object.entries(error.constraints ?? {}).flatMap(([constraint, message]): FieldError[] => {
    if (constraint === 'whitelistValidation') return [{ path: error.property, message: 'is not a known field' }];
    if (constraint !== FAULTS || !context.check) return [{ path: error.property, message }];
    return context.check(error.value).map((fault) => ({ ...fault, path: error.property + fault.path }));
  });
}

/** An id in the path. */
@Injectable()
export class IdPipe implements PipeTransform<unknown, Id> {
  transform(value: unknown, metadata: { data?: string | undefined }): Id {
    if (isId(value)) return value;
    throw validationFailed([{ path: metadata.data ?? 'id', message: ID_RULE }]);
  }
}
