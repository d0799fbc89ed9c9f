import { BadRequestException, ConflictException, HttpException, NotFoundException, ServiceUnavailableException, UnprocessableEntityException } from '@nestjs/common';
import { DeliveryRefusedError } from '../errors/delivery-refused.error.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import { UnknownJobError } from '../errors/unknown-job.error.js';
import { OwnLogger } from '../logging/own-logger.js';
import { hasEnded, type Delivered } from '../operations/delivered.js';

/** 202: it was taken in, or is not over yet for who waits. 200: there is nothing more to it. 424: it ended, and is not done. */
export function statusOf(delivered: Delivered, waited: boolean): 200 | 202 | 424 {
  const { status, duplicate } = delivered;
  if (!waited) return duplicate || status === 'skipped' ? 200 : 202;
  if (!hasEnded(delivered)) return 202;
  return status === 'dead' || status === 'cancelled' ? 424 : 200;
}

/** What a caller is told: what he can mend in words, of everything else only that he may try again. */
export function refusalOf(error: unknown): HttpException {
  if (error instanceof InvalidOptionsError) return new BadRequestException([...error.problems]);
  if (error instanceof UnknownJobError) return new NotFoundException(error.message);
  if (error instanceof DeliveryRefusedError) {
    return error.problem === 'too early' ? new ConflictException(error.message) : new UnprocessableEntityException(error.message);
  }
  new OwnLogger().error(`A delivery could not be taken in: ${error instanceof Error ? error.message : String(error)}`);
  return new ServiceUnavailableException('The delivery could not be taken in; deliver it again: it has the same key, and runs once.');
}
