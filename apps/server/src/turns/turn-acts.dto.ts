import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import type { FieldError } from '#protocol';
import { Checked, MayBeLeftOut } from '../http/field.decorators.js';
import { textFault } from '../http/text.check.js';

const REASON_MAX_CHARS = 1024;
const GENERATION_MAX = 2 ** 31 - 1;

const GENERATION = { type: 'integer', minimum: 1, maximum: GENERATION_MAX } as const;

function generationFaults(value: unknown): FieldError[] {
  const isOne = typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= GENERATION_MAX;
  return isOne ? [] : [{ path: '', message: `must be a whole number from 1 to ${GENERATION_MAX}` }];
}

function reasonFaults(reason: unknown): FieldError[] {
  const message = textFault(reason, REASON_MAX_CHARS);
  return message === null ? [] : [{ path: '', message }];
}

export class StopTurnDto {
  @ApiPropertyOptional({
    ...GENERATION,
    description:
      'The generation to stop; the present one when it is left out. The next one may be named when the present one has ' +
      'ended: the retry that is on its way is then refused',
  })
  @MayBeLeftOut()
  @Checked(generationFaults)
  generation?: number;

  @ApiPropertyOptional({
    type: 'string',
    maxLength: REASON_MAX_CHARS,
    description: `Kept with the stop. At most ${REASON_MAX_CHARS} UTF-16 units`,
  })
  @MayBeLeftOut()
  @Checked(reasonFaults)
  reason?: string;
}

export class RetryTurnDto {
  @ApiProperty({ ...GENERATION, description: 'The generation that is retried, so that a resent retry is one retry' })
  @Checked(generationFaults)
  generation!: number;
}
