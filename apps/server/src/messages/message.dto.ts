import { ApiProperty, ApiPropertyOptional, getSchemaPath } from '@nestjs/swagger';
import { IsIn } from 'class-validator';
import type { Content, Id, Meta, Mode } from '#protocol';
import { Checked, IsId, MayBeLeftOut } from '../http/field.decorators.js';
import { metadataFaults } from '../http/metadata.check.js';
import { contentFaults } from './content.check.js';

const ref = (name: string) => ({ $ref: getSchemaPath(name) });

/** `steer` and `interrupt` are refused until a running turn can be joined and stopped: queueing them would be a lie. */
const SERVED_MODES = ['enqueue', 'reject'] as const satisfies Mode[];

export class PostMessageDto {
  @ApiPropertyOptional({
    allOf: [ref('Id')],
    description: 'Chosen by the caller, to stop or to send again; else by the server',
  })
  @MayBeLeftOut()
  @IsId()
  turnId?: Id;

  @ApiProperty({ allOf: [ref('Content')] })
  @Checked(contentFaults)
  content!: Content;

  @ApiPropertyOptional({ enum: SERVED_MODES, default: 'enqueue' })
  @MayBeLeftOut()
  @IsIn(SERVED_MODES, { message: `must be one of: ${SERVED_MODES.join(', ')}` })
  mode?: Mode;

  @ApiPropertyOptional({ allOf: [ref('Meta')] })
  @MayBeLeftOut()
  @Checked(metadataFaults)
  metadata?: Meta;
}
