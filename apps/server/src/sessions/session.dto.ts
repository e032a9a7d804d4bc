import { ApiPropertyOptional, getSchemaPath } from '@nestjs/swagger';
import type { FieldError, Id, Meta } from '#protocol';
import { Checked, IsId, MayBeLeftOut } from '../http/field.decorators.js';
import { metadataFaults } from '../http/metadata.check.js';
import { textFault } from '../http/text.check.js';

const TITLE_MAX_CHARS = 256;

function titleFaults(title: unknown): FieldError[] {
  const message = textFault(title, TITLE_MAX_CHARS);
  return message === null ? [] : [{ path: '', message }];
}

const orNull =
  (check: (value: unknown) => FieldError[]) =>
  (value: unknown): FieldError[] =>
    value === null ? [] : check(value);

export class CreateSessionDto {
  @ApiPropertyOptional({ allOf: [{ $ref: getSchemaPath('Id') }] })
  @MayBeLeftOut()
  @IsId()
  sessionId?: Id;

  @ApiPropertyOptional({ type: 'string', maxLength: TITLE_MAX_CHARS })
  @MayBeLeftOut()
  @Checked(titleFaults)
  title?: string;

  @ApiPropertyOptional({ allOf: [{ $ref: getSchemaPath('Meta') }] })
  @MayBeLeftOut()
  @Checked(metadataFaults)
  metadata?: Meta;
}

/** What is left out stays as it is; null takes it away. */
export class ChangeSessionDto {
  @ApiPropertyOptional({ type: 'string', maxLength: TITLE_MAX_CHARS, nullable: true })
  @MayBeLeftOut()
  @Checked(orNull(titleFaults))
  title?: string | null;

  @ApiPropertyOptional({ allOf: [{ $ref: getSchemaPath('Meta') }], nullable: true })
  @MayBeLeftOut()
  @Checked(orNull(metadataFaults))
  metadata?: Meta | null;
}
