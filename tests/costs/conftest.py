"""What tests of costs share."""

from tests.costs.fake import fakes_fixture as fakes_fixture
