import { ApiPropertyOptional } from '@nestjs/swagger';
import type { FieldError, Id, Meta } from '#protocol';
import { Checked, IsId, MayBeLeftOut } from '../http/field.decorators.js';
import { metadataFaults } from '../http/metadata.check.js';
import { textFault } from '../http/text.check.js';
import { nullable, ref } from '../openapi/schema-shorthand.js';

const TITLE_MAX_CHARS = 256;

function titleFaults(title: unknown): FieldError[] {
  const message = textFault(title, TITLE_MAX_CHARS);
  return message === null ? [] : [{ path: '', message }];
}

const orNull =
  (check: (value: unknown) => FieldError[]) =>
  (value: unknown): FieldError[] =>
    value === null ? [] : check(value);

const TITLE = {
  type: 'string',
  maxLength: TITLE_MAX_CHARS,
  description: `At most ${TITLE_MAX_CHARS} UTF-16 units`,
} as const;

export class CreateSessionDto {
  @ApiPropertyOptional({ allOf: [ref('Id')], description: 'Chosen by the caller; else by the server' })
  @MayBeLeftOut()
  @IsId()
  sessionId?: Id;

  @ApiPropertyOptional(TITLE)
  @MayBeLeftOut()
  @Checked(titleFaults)
  title?: string;

  @ApiPropertyOptional({ allOf: [ref('Meta')] })
  @MayBeLeftOut()
  @Checked(metadataFaults)
  metadata?: Meta;
}

/** What is left out stays as it is; null takes it away. */
export class ChangeSessionDto {
  @ApiPropertyOptional(nullable(TITLE))
  @MayBeLeftOut()
  @Checked(orNull(titleFaults))
  title?: string | null;

  @ApiPropertyOptional(nullable(ref('Meta')))
  @MayBeLeftOut()
  @Checked(orNull(metadataFaults))
  metadata?: Meta | null;
}
