import { ApiProperty, ApiPropertyOptional, getSchemaPath } from '@nestjs/swagger';
import { IsIn } from 'class-validator';
import { type Content, type Id, type Meta, type Mode, MODES } from '#protocol';
import { Checked, IsId, MayBeLeftOut } from '../http/field.decorators.js';
import { metadataFaults } from '../http/metadata.check.js';
import { contentFaults } from './content.check.js';

const ref = (name: string) => ({ $ref: getSchemaPath(name) });

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

  @ApiPropertyOptional({ enum: MODES, default: 'enqueue' })
  @MayBeLeftOut()
  @IsIn(MODES, { message: `must be one of: ${MODES.join(', ')}` })
  mode?: Mode;

  @ApiPropertyOptional({ allOf: [ref('Meta')] })
  @MayBeLeftOut()
  @Checked(metadataFaults)
  metadata?: Meta;
}
